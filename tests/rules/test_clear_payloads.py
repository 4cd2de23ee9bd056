"""Python, the compiled core and the plugin read what follows clear payloads (RFC 7296, 3.14; RFC 7383, 2.5.3)."""

from dataclasses import replace

import pytest

import ikeanalyze
from tests.analysis.encrypted_handshakes import CHILD, IDENTITIES, PSK, Sa, table
from tests.craft import Handshake, Trace, ike
from tests.dissectors.run_plugin import fields

SKF = 53
#: A clear notify before an Encrypted Fragment payload: next payload, flags, length 8; INITIAL_CONTACT (16384).
NOTIFY = bytes([SKF, 0, 0, 8, 0, 0, 0x40, 0])


def prepend(notify, fragment):
    """A fragment, after its non-ESP marker, whose first payload is a notify."""
    message = fragment[4:]
    length = (len(message) + len(notify)).to_bytes(4, "big")
    return bytes(4) + message[:16] + bytes([41]) + message[17:24] + length + notify + message[28:]


def make_capture(change):
    """IKE_SA_INIT, and IKE_AUTH whose request has three fragments; `change` makes another first one."""
    messages = Handshake(1).setup(auth=(3, 1))
    first, *others = messages[2].datagrams
    messages[2] = replace(messages[2], datagrams=(change(first), *others))
    trace = Trace()
    trace.play(messages)
    return trace.pcap()


def has_clear_payload(fragment):
    return prepend(NOTIFY, fragment)


def has_two_clear_payloads(fragment):
    return prepend(bytes([41]) + NOTIFY[1:] + NOTIFY, fragment)


def is_encrypted_after_a_clear_payload(fragment):
    """An Encrypted payload (46) has no fragment number: this is not a fragment."""
    return prepend(bytes([46]) + NOTIFY[1:], fragment)


def number_first_fragment(fragment, number, total):
    """Number and total are the first four bytes after the generic header of the Encrypted Fragment payload."""
    changed = prepend(NOTIFY, fragment)
    return changed[:44] + bytes([0, number, 0, total]) + changed[48:]


def has_a_number_above_the_total(fragment):
    return number_first_fragment(fragment, 4, 3)


def has_no_total(fragment):
    return number_first_fragment(fragment, 1, 0)


def has_no_number(fragment):
    return number_first_fragment(fragment, 0, 0)


#: By frame: fragment number and total, (None, None) if not fragmented; the plugin shows both, or nothing.
WHOLE, MISSING = [(None, None)] * 2, [(2, 3), (3, 3), (None, None)]
CASES = [
    (has_clear_payload, [*WHOLE, (1, 3), *MISSING], 4),
    (has_two_clear_payloads, [*WHOLE, (1, 3), *MISSING], 4),
    (is_encrypted_after_a_clear_payload, [*WHOLE, (None, None), *MISSING], 5),
    (has_a_number_above_the_total, [*WHOLE, *MISSING], 4),
    (has_no_total, [*WHOLE, *MISSING], 4),
    (has_no_number, [*WHOLE, *MISSING], 4),
]
each_case = pytest.mark.parametrize(
    ("change", "expected", "messages"), CASES, ids=lambda case: getattr(case, "__name__", "")
)


@pytest.mark.usefixtures("implementation")
@each_case
def test_reports_have_the_fragments(change, expected, messages):
    analysis = ikeanalyze.read(make_capture(change))
    assert analysis.frames.select("fragment", "fragments").rows() == expected
    assert len(analysis.messages) == messages


@pytest.mark.turns
@each_case
def test_the_plugin_has_the_fragments(change, expected, messages, tshark):
    shown = fields(tshark, make_capture(change), "ikex.transmission", "ikex.fragment", "ikex.fragments")
    numbers = [tuple(int(number) if number else None for number in row[1:]) for row in shown]
    assert numbers == expected


def encrypt_after_clear_payloads(fragments):
    """IKE_AUTH whose request has two notifies before the encrypted payload, and the keys."""
    sa = Sa(proposals=(ike.CLASSIC,))
    clear = [ike.notify(ike.COOKIE, b"clear")] * 2
    trace = Trace()
    trace.play(
        [
            *sa.init(),
            sa.put(ike.IKE_AUTH, [IDENTITIES[True], PSK, *CHILD], clear=clear, fragments=fragments),
            sa.put(ike.IKE_AUTH, [IDENTITIES[False], PSK, *CHILD], from_initiator=False, response=True, message_id=1),
        ]
    )
    return trace.pcap(), table(*sa.key_sets)


each_number = pytest.mark.parametrize("fragments", [1, 2])


@pytest.mark.usefixtures("implementation")
@each_number
def test_reports_decrypt_what_follows_clear_payloads(fragments):
    capture, keys = encrypt_after_clear_payloads(fragments)
    analysis = ikeanalyze.read(capture, keys=keys.encode())
    assert analysis.handshakes["outcome"].to_list() == ["established"]
    payloads = analysis.messages["payloads"].to_list()[2]
    assert [text.partition("(")[0] for text in payloads] == ["N", "N", "IDi", "AUTH", "SA", "TSi", "TSr"]


@each_number
def test_the_plugin_decrypts_what_follows_clear_payloads(fragments, tshark):
    capture, keys = encrypt_after_clear_payloads(fragments)
    shown = fields(tshark, capture, "frame.number", "ikex.verified", "ikex.payload", only="ikex.verified", keys=keys)
    last = 2 + fragments
    whole = [[str(last), "True", "N,N,IDi,AUTH,SA,TSi,TSr"]]
    assert [row for row in shown if row[2]][:1] == whole
    assert [row[:2] for row in shown] == [[str(number), "True"] for number in range(3, last + 2)]
    outcomes = fields(tshark, capture, "ikex.outcome", keys=keys)
    assert outcomes == [["established"]] * (last + 1)


def test_the_plugin_shows_clear_payloads_before_what_no_key_decrypts(tshark):
    capture, keys = encrypt_after_clear_payloads(1)
    row = keys.split(",")
    wrong = ",".join([*row[:2], *("00" * (len(key) // 2) for key in row[2:4]), *row[4:5], *row[2:4], row[-1]])
    assert fields(tshark, capture, "ikex.payload", only="frame.number == 3", keys=wrong) == [["N,N,SK"]]
