"""Encrypted messages of IKEv1, from whole captures."""

from dataclasses import replace
from random import Random

import polars as pl
import pytest

import ikeanalyze
from tests.analysis.daemon_log_payloads import differences, generated, looked_into
from tests.analysis.decrypt_captures import look
from tests.analysis.ikev1_phase1 import NAME, Phase
from tests.analysis.recorded_captures import DATA, generated_of, xauth_keys
from tests.craft import MS, SECOND, Trace, ikev1, pcap
from tests.craft.ike import chain
from tests.crypto.test_ikev1 import CIPHERS, COOKIE_I, COOKIE_R, Sender
from tests.paths import CAPTURES

LONG = (ikev1.CERT, b"\x04" + bytes(range(256)) * 6)


def types(found):
    """Of what was encrypted and is open, with its frame."""
    return [(item.frame, [payload.type for payload in item.payloads]) for item in found.contents.all if item.encrypted]


IDENTITY = [ikev1.ID, ikev1.HASH]
NOT_OPENED = "1 message could not be decrypted, although other messages of this IKE SA were"


def test_the_recorded_handshake():
    """Message by message what the daemons' logs list: main mode, XAuth, quick mode, two deletes."""
    result = look(CAPTURES / "ikev1-xauth.pcap", xauth_keys())
    assert differences(looked_into(result.analysis.messages), generated(generated_of("ikev1-xauth"))) == (
        [],
        [],
    )
    assert result.outcomes == [("established", None)]
    assert not result.findings
    messages = result.analysis.messages
    assert messages["decrypted"].to_list() == [None] * 4 + [True] * 11
    assert not messages["verified"].drop_nulls().any()  # IKEv1 has no ICV
    assert messages["epoch"].null_count() == len(messages)


def test_a_recorded_aggressive_mode_in_fragments():
    """With RSA signatures, messages 2 (in clear) and 3 (encrypted) come in three fragments each."""
    recorded = DATA / "ikev1-aggressive-rsa.pcapng"
    result = look(recorded, (DATA / "ikev1-aggressive-rsa.keys.json").read_text())
    log = generated_of("ikev1-aggressive-rsa")
    assert differences(looked_into(result.analysis.messages), generated(log)) == ([], [])
    assert result.outcomes == [("established", None)]
    assert not result.findings
    assert result.analysis.messages["decrypted"].to_list() == [None, None, *[True] * 6]
    row = result.analysis.handshakes.row(0, named=True)
    assert "not read" not in {part["payload"] for part in row["payload_bytes"]}
    # without keys: the initiator's log has "remote host is behind NAT", and "with RSA_EMSA_PKCS1_NULL" of both sides
    row = ikeanalyze.read(recorded).handshakes.row(0, named=True)
    assert (row["nat"], row["auth_initiator"], row["auth_responder"]) == ("responder", "rsa", "rsa")
    assert not row["auth_guessed"]
    assert (row["encryption"], row["prf"], row["key_exchange"]) == ("AES-CBC-256", "SHA2-256", "ECP-256")
    assert "vendor NAT-T (RFC 3947)" in row["responder_supports"]


def test_main_mode_is_decrypted():
    phase = Phase()
    result = look(phase.trace(), phase.table())
    assert types(result) == [(5, IDENTITY), (6, IDENTITY)]
    assert [item.plaintext for item in result.contents.all[:1]] == [chain([NAME, phase.sender.hash_payload()])[1]]
    for one in result.contents.all[:2]:
        assert (one.epoch, one.verified, one.set_up, one.clear) == (None, False, True, 0)
    # of IKEv1, the clear messages of phase 1 are looked into as well
    assert result.analysis.messages["payloads"].null_count() == 0


def test_aggressive_mode_and_what_follows():
    phase = Phase()
    mode = ikev1.AGGRESSIVE_MODE
    proposal = ikev1.sa([(1, 7), (14, 256), (2, 2), (4, 14), (3, 1)])
    public = [payload for message in phase.clear[2:] for payload in [(ikev1.KE, message[32 : 32 + 128])]]
    cookie_i, cookie_r = phase.clear[1][:8], phase.clear[1][8:16]

    sender = Sender()
    messages = [
        ikev1.message(cookie_i, bytes(8), mode, [proposal, public[0], (ikev1.NONCE, bytes(16)), NAME]),
        ikev1.message(
            cookie_i,
            cookie_r,
            mode,
            [proposal, public[1], (ikev1.NONCE, bytes(16)), NAME, sender.hash_payload()],
        ),
        sender.send(mode, 0, [sender.hash_payload()]),
        sender.send(ikev1.QUICK_MODE, 7, [sender.hash_payload(), (ikev1.SA, bytes(40))]),
    ]
    trace = Trace()
    for number, message in enumerate(messages):
        trace.send(number * 10 * MS, message, from_initiator=number != 1)
    result = look(trace, phase.table())
    assert types(result) == [(3, [ikev1.HASH]), (4, [ikev1.HASH, ikev1.SA])]


def fragmented(seen, *, again=(), size=400):
    """Main mode with a fragmented fifth message; `seen`: captured fragments, `again`: of a second transmission."""
    phase = Phase()
    trace = Trace()
    for number, message in enumerate(phase.clear):
        trace.send(number * 10 * MS, message, from_initiator=number % 2 == 0)
    phase.sender = Sender()  # which has encrypted nothing yet
    whole = phase.sender.send(ikev1.MAIN_MODE, 0, [NAME, LONG, phase.sender.hash_payload()])
    parts = ikev1.fragments(whole, size)
    assert len(parts) == 5
    for number in seen:
        trace.send(SECOND + number * MS, parts[number - 1])
    for number in again:
        trace.send(3 * SECOND + number * MS, parts[number - 1])
    answer = phase.sender.send(ikev1.MAIN_MODE, 0, [NAME, phase.sender.hash_payload()])
    trace.send(4 * SECOND, answer, from_initiator=False)
    return look(trace, phase.table(), cleartext=True), whole


INSIDE = [ikev1.ID, ikev1.CERT, ikev1.HASH]


@pytest.mark.parametrize("seen", [(1, 2, 3, 4, 5), (5, 3, 1, 4, 2)])
def test_fragmented_ikev1_messages_are_decrypted(seen):
    result, whole = fragmented(seen)
    assert types(result) == [(9, INSIDE), (10, IDENTITY)]
    content = result.contents.all[0]
    assert len(content.datagrams) == 5
    assert content.header == whole[:28]
    assert not result.findings


def test_fragments_of_two_transmissions():
    result, _ = fragmented((1, 2, 5), again=(2, 3, 4))
    assert types(result) == [(10, INSIDE), (11, IDENTITY)]


@pytest.mark.parametrize("seen", [(1, 2, 4, 5), (1, 2, 3, 4), (3,)])
def test_fragments_that_are_missing(seen):
    result, _ = fragmented(seen)
    # the next message wants the last block of this one
    assert types(result) == []
    [text] = [text for frame, text in result.findings if frame is None]
    assert text.startswith("none of the keys fits any of its encrypted messages, although ")
    assert text.endswith("the capture may lack a message, without which the next one of phase 1 cannot be decrypted")


def test_fragments_that_are_missing_of_one_message():
    phase = Phase()
    trace = phase.trace()
    whole = phase.sender.send(ikev1.QUICK_MODE, 7, [phase.sender.hash_payload(), LONG])
    for part in ikev1.fragments(whole, 400)[1:]:
        trace.send(SECOND, part)
    result = look(trace, phase.table())
    assert types(result) == [(5, IDENTITY), (6, IDENTITY)]
    assert (7, "a message lacks fragments and cannot be reassembled") in result.findings


# ---- keys


def test_a_wrong_key_beside_the_right_one():
    phase = Phase()
    wrong = Random(1).randbytes(32)
    for text in (phase.table(wrong) + phase.table(), phase.table() + phase.table(wrong)):
        result = look(phase.trace(), text)
        assert types(result) == [(5, IDENTITY), (6, IDENTITY)]
        assert not result.findings


def test_a_wrong_key_decrypts_nothing():
    phase = Phase()
    result = look(phase.trace(), phase.table(Random(1).randbytes(32)))
    assert types(result) == []
    [(frame, text)] = result.findings
    assert frame is None
    assert text.startswith("none of the keys fits any of its encrypted messages, although ")
    assert f" has a key for the initiator's cookie {phase.table()[:16]}: it may be wrong" in text


def test_a_key_of_another_length():
    phase = Phase()
    result = look(phase.trace(), phase.table(bytes(16)))
    assert types(result) == []


def test_peers_with_different_keys():
    """With a wrong pre-shared key, the sides derive different keys, and each message needs those of its sender."""

    phase = Phase()
    trace = Trace()
    for number, message in enumerate([*phase.clear, phase.encrypted[0]]):
        trace.send(number * 10 * MS, message, from_initiator=number % 2 == 0)

    class Other(Sender):
        @property
        def key(self):
            return Random(4711).randbytes(CIPHERS[self.encryption][0])

    other = Other()
    # its last block of phase 1 is what it has received
    other.ivs[0] = phase.encrypted[0][-16:]
    notify = ikev1.NOTIFY, (1).to_bytes(4, "big") + bytes([1, 0, 0, 16])
    answer = other.send(ikev1.INFORMATIONAL, 99, [other.hash_payload(), notify])
    trace.send(SECOND, answer, from_initiator=False)
    one = look(trace, phase.table())
    assert types(one) == [(5, IDENTITY)]
    assert (6, NOT_OPENED) in one.findings
    both = look(trace, phase.table(), phase.table(other.key))
    assert types(both) == [(5, IDENTITY), (6, [ikev1.HASH, ikev1.NOTIFY])]
    assert both.outcomes == [("failed", "PAYLOAD-MALFORMED")]
    assert not both.findings


@pytest.mark.parametrize(
    ("attribute", "key", "reason"),
    [
        ((1, 2), bytes(16), "encryption algorithm IDEA-CBC is not supported"),
        ((1, 7), bytes(8), "the key has 8 bytes, AES-CBC takes 16 or 24 or 32"),
    ],
)
def test_a_key_that_is_not_for_the_negotiated_cipher_is_named_with_the_reason(attribute, key, reason):
    """Numbers of ciphers: RFC 2409, appendix A, and RFC 3602, 5.1."""
    phase = Phase()
    answer = ikev1.message(COOKIE_I, COOKIE_R, ikev1.MAIN_MODE, [ikev1.sa([attribute, (2, 2), (4, 14), (3, 1)])])
    trace = Trace()
    for number, message in enumerate([phase.clear[0], answer, *phase.clear[2:], *phase.encrypted]):
        trace.send(number * 10 * MS, message, from_initiator=number % 2 == 0)
    result = look(trace, phase.table(key))
    assert types(result) == []
    [(frame, text), (_, unfit)] = [(warning.frame, warning.message) for warning in result.analysis.warnings]
    assert (frame, text.partition(": ")[2]) == (5, reason)
    assert unfit.endswith(f"has a key for the initiator's cookie {COOKIE_I.hex()}: {reason}")


def test_without_phase_1_there_is_no_iv():
    phase = Phase()
    trace = Trace()
    for number, message in enumerate(phase.encrypted):
        trace.send(number * 10 * MS, message, from_initiator=number % 2 == 0)
    assert types(look(trace, phase.table())) == []


def test_messages_that_the_capture_cut():
    phase = Phase()
    trace = phase.trace()
    long = phase.sender.send(ikev1.QUICK_MODE, 7, [phase.sender.hash_payload(), (ikev1.SA, bytes(600))])
    trace.send(SECOND, long)
    packets = [replace(packet, data=packet.data[:300], length=len(packet.data)) for packet in trace.packets]
    result = look(pcap(packets, snaplen=300), phase.table())
    assert types(result) == [(5, IDENTITY), (6, IDENTITY)]
    what = "1 encrypted message is truncated in the capture and cannot be decrypted"
    assert result.findings == [(7, what)]


def test_keys_of_another_ike_sa():
    analysis = ikeanalyze.read(CAPTURES / "ikev1-xauth.pcap", payloads=True)
    assert analysis.messages.filter(pl.col("decrypted").is_not_null()).is_empty() is False
    result = look(CAPTURES / "ikev1-xauth.pcap", "00112233aabbccdd," + "00" * 16 + "\n")
    assert types(result) == []
    assert result.outcomes == [("completed", None)]
