"""IKEv1 from the first message to the first quick mode, and what a row of handshakes says."""

import struct
from dataclasses import replace
from random import Random

import pytest

from tests.analysis.analyse_captures import AROUND, Handshake, analyse, at, only, rows
from tests.craft import MS, SECOND, Trace, ike, ikev1, pcap
from tests.craft.transport import NON_ESP_MARKER

TRANSACTION = 6  # exchange type of XAuth and mode configuration


class Old:
    """IKEv1 messages with who sends them: True is the initiator."""

    def __init__(self, seed=1, *, aggressive=False):
        self.rng = Random(seed)
        phase1 = ikev1.aggressive_mode(self.rng) if aggressive else ikev1.main_mode(self.rng)
        self.cookies = phase1[1][:16]
        self.phase1 = self.turns(phase1)

    @staticmethod
    def turns(messages, first=True):
        return [(data, first == (place % 2 == 0)) for place, data in enumerate(messages)]

    def quick(self):
        return self.turns(ikev1.quick_mode(self.rng, self.cookies))

    def encrypted(self, kind, size, message_id):
        body = self.rng.randbytes(size)
        return ikev1.encrypted(self.cookies[:8], self.cookies[8:], kind, ikev1.HASH, body, message_id)

    def xauth(self):
        """The responder asks for name and password, then tells the result."""
        first, second = self.rng.randrange(1, 2**32), self.rng.randrange(1, 2**32)
        requested = self.turns([self.encrypted(TRANSACTION, size, first) for size in (80, 96)], first=False)
        reported = self.turns([self.encrypted(TRANSACTION, size, second) for size in (64, 60)], first=False)
        return requested + reported

    def informational(self):
        return (self.encrypted(ikev1.INFORMATIONAL, 64, self.rng.randrange(1, 2**32)), True)


def played(messages, *, step=10, floats=None):
    """A message each `step` ms; from number `floats` on, on port 4500."""
    trace = Trace()
    for place, (data, by_initiator) in enumerate(messages):
        port, payload = (500, data) if floats is None or place < floats else (4500, NON_ESP_MARKER + data)
        trace.send(place * step * MS, payload, sport=port, dport=port, from_initiator=by_initiator)
    return trace


def size(messages):
    return sum(AROUND + len(data) for data, _ in messages)


EXCHANGE = ("type", "attempt", "initiated_by", "set_up", "request_messages", "response_messages")


def test_main_mode_and_the_first_quick_mode_are_the_set_up():
    old = Old()
    messages = old.phase1 + old.quick()
    analysis = analyse(played(messages))
    row = only(analysis)
    assert (row["protocol"], row["outcome"]) == ("IKEv1", "completed")
    assert (row["initiator_messages"], row["responder_messages"]) == (5, 4)
    assert row["initiator_bytes"] + row["responder_bytes"] == size(messages)
    assert (row["spi_i"], row["spi_r"]) == (old.cookies[:8].hex(), old.cookies[8:].hex())
    assert [(phase["messages"], phase["bytes"]) for phase in row["phases"]] == [
        (6, size(messages[:6])),
        (3, size(messages[6:])),
    ]
    main, quick = (phase["type"] for phase in row["phases"])
    assert rows(analysis.exchanges, *EXCHANGE) == [
        (main, 1, "initiator", True, 1, 1),
        (main, 2, "initiator", True, 1, 1),
        (main, 3, "initiator", True, 1, 1),
        (quick, 1, "initiator", True, 1, 1),
        (quick, 2, "initiator", True, 1, None),
    ]
    assert row["setup_ns"] == 80 * MS
    assert row["end_ns"] == at(80)
    assert (row["retransmitted_messages"], row["blowup"], row["extra_round_trips"]) == (0, 1.0, [])
    # the default of the packet builder: AES-128-CBC, SHA2-256, MODP-2048, shared key
    assert (row["auth_initiator"], row["auth_responder"], row["auth_guessed"]) == ("psk", "psk", False)
    assert "128" in row["encryption"]
    assert len(row["offered"]) == 1


def test_aggressive_and_quick_mode():
    old = Old(aggressive=True)
    messages = old.phase1 + old.quick()
    analysis = analyse(played(messages))
    row = only(analysis)
    assert row["outcome"] == "completed"
    assert (row["initiator_messages"], row["responder_messages"]) == (4, 2)
    aggressive, quick = (phase["type"] for phase in row["phases"])
    assert rows(analysis.exchanges, *EXCHANGE) == [
        (aggressive, 1, "initiator", True, 1, 1),
        (aggressive, 2, "initiator", True, 1, None),
        (quick, 1, "initiator", True, 1, 1),
        (quick, 2, "initiator", True, 1, None),
    ]
    assert row["setup_ns"] == 50 * MS


def test_a_nat_moves_it_to_port_4500():
    old = Old()
    messages = old.phase1 + old.quick()
    analysis = analyse(played(messages, floats=4))
    row = only(analysis)
    assert (row["outcome"], row["initiator_port"], row["initiator_messages"]) == ("completed", 500, 5)
    assert row["initiator_bytes"] + row["responder_bytes"] == size(messages) + 5 * 4
    assert analysis.frames["encapsulation"].to_list() == ["UDP 500"] * 4 + ["UDP 4500"] * 5


def test_retransmissions_of_ikev1():
    old = Old()
    messages = old.phase1 + old.quick()
    # the third and fourth message, and the first of quick mode, once more
    again = [*messages[:4], *messages[2:4], *messages[4:7], messages[6], *messages[7:]]
    row = only(analyse(played(again)))
    assert row["outcome"] == "completed"
    assert row["retransmitted_messages"] == 3
    assert row["retransmitted_bytes"] == size([messages[2], messages[3], messages[6]])
    assert (row["initiator_messages"], row["responder_messages"]) == (7, 5)


@pytest.mark.parametrize("lost", [None, 1, 2, 3])
def test_ikev1_fragments_are_grouped_into_transmissions(lost):
    """Message 5 in three fragments, of which one may be lost; then all of them again."""
    old = Old()
    body = ikev1.encrypted(old.cookies[:8], old.cookies[8:], ikev1.MAIN_MODE, ikev1.ID, Random(1).randbytes(1200))
    parts = [(data, True) for data in ikev1.fragments(body, 500)]
    assert len(parts) == 3
    first = [part for number, part in enumerate(parts, 1) if number != lost]
    trace = played([*old.phase1[:4], *first], step=1)
    for place, (data, _) in enumerate(parts):
        trace.send(SECOND + place * MS // 10, data)
    for place, (data, by_initiator) in enumerate([old.phase1[5], *old.quick()]):
        trace.send(2 * SECOND + place * MS, data, from_initiator=by_initiator)
    analysis = analyse(trace)
    row = only(analysis)
    assert row["outcome"] == "completed"
    assert (row["initiator_messages"], row["responder_messages"]) == (6, 4)
    assert (row["retransmitted_messages"], row["retransmitted_frames"]) == (1, 3)
    assert row["ike_fragments"] == len(first) + 3
    assert row["ike_messages_fragmented"] == 2
    assert rows(analysis.exchanges, "attempt", "request_messages")[:3] == [(1, 1), (2, 1), (3, 2)]


def test_only_the_beginning_of_a_fragmented_message():
    """A fragment behind whole messages of the same slot is a message of its own."""
    old = Old()
    body = ikev1.encrypted(old.cookies[:8], old.cookies[8:], ikev1.MAIN_MODE, ikev1.ID, bytes(900))
    head = (ikev1.fragments(body, 500)[0], True)
    row = only(analyse(played([*old.phase1[:4], head])))
    assert (row["initiator_messages"], row["retransmitted_messages"], row["outcome"]) == (3, 0, "cut")


RSA_SIGNATURES = ((1, 7), (14, 128), (2, 4), (4, 14), (3, 3))
FACTS = ("encryption", "prf", "key_exchange", "auth_initiator", "auth_responder", "auth_guessed", "responder_supports")
KNOWN = ("AES-CBC-128", "SHA2-256", "MODP-2048", "rsa", "rsa", False, ["vendor FRAGMENTATION"])
UNKNOWN = (None, None, None, None, None, False, [])


def aggressive_mode_in_fragments():
    """The first message, the fragments of the second, and of the encrypted third; with RSA signatures."""
    i, r = b"initiatr", b"responde"
    mode, rng = ikev1.AGGRESSIVE_MODE, Random(1)
    keys = [ikev1.sa(RSA_SIGNATURES), (ikev1.KE, rng.randbytes(256)), (ikev1.NONCE, rng.randbytes(32))]
    proof = [(ikev1.CERT, rng.randbytes(900)), (ikev1.SIGNATURE, rng.randbytes(256))]
    vendor = ikev1.VENDOR_ID, ikev1.FRAGMENTATION_VENDOR_ID
    second = ikev1.fragments(ikev1.message(i, r, mode, [*keys, *proof, vendor]), 600)
    third = ikev1.fragments(ikev1.encrypted(i, r, mode, ikev1.CERT, rng.randbytes(1200)), 600)
    assert len(second) == len(third) == 3
    first = ikev1.message(i, bytes(8), mode, keys), True
    return first, [(part, False) for part in second], [(part, True) for part in third]


def facts(trace):
    row = only(analyse(trace))
    return tuple(row[name] for name in FACTS)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 1, 0)])
def test_clear_messages_in_fragments_are_read(order):
    first, second, third = aggressive_mode_in_fragments()
    assert facts(played([first, *(second[place] for place in order), *third], step=1)) == KNOWN


def test_clear_fragments_of_two_transmissions_make_a_message():
    first, second, third = aggressive_mode_in_fragments()
    trace = played([first, *second[:2]], step=1)
    for place, (data, by_initiator) in enumerate([*second[1:], *third]):
        trace.send(SECOND + place * MS // 10, data, from_initiator=by_initiator)
    assert facts(trace) == KNOWN


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_without_a_fragment_the_clear_message_is_unknown(lost):
    first, second, third = aggressive_mode_in_fragments()
    del second[lost]
    assert facts(played([first, *second, *third], step=1)) == UNKNOWN


def test_a_truncated_fragment_does_not_join_the_wrong_bytes():
    first, second, third = aggressive_mode_in_fragments()
    trace = played([first, *second, *third], step=1)
    packets = [replace(packet, data=packet.data[:500], length=len(packet.data)) for packet in trace.packets]
    row = only(analyse(pcap(packets, snaplen=500)))
    assert tuple(row[name] for name in FACTS) == UNKNOWN


def test_xauth_belongs_to_the_set_up():
    old = Old(aggressive=True)
    messages = [*old.phase1, *old.xauth(), *old.quick()]
    analysis = analyse(played(messages))
    row = only(analysis)
    assert row["outcome"] == "completed"
    assert (row["initiator_messages"], row["responder_messages"]) == (6, 4)
    assert [phase["messages"] for phase in row["phases"]] == [3, 4, 3]
    kind = row["phases"][1]["type"]
    asked = [one for one in rows(analysis.exchanges, *EXCHANGE) if one[0] == kind]
    assert asked == [(kind, 1, "responder", True, 1, 1)] * 2


def test_xauth_in_vain_is_unanswered():
    old = Old(aggressive=True)
    question = old.xauth()[0]
    row = only(analyse(played([*old.phase1, question, question, question], step=1000)))
    assert (row["outcome"], row["retransmitted_messages"]) == ("unanswered", 2)


def test_from_the_responders_side_its_own_turn_has_no_path():
    """Behind its answer the responder asks at once (XAuth): that pause is not the path."""
    old = Old(aggressive=True)
    messages = [*old.phase1, *old.xauth()[:2], *old.quick()]
    times = (0, 5, 35, 36, 70, 80, 84, 114)
    trace = Trace()
    for time, (data, by_initiator) in zip(times, messages, strict=True):
        trace.send(time * MS, data, from_initiator=by_initiator, ttl=60 if by_initiator else 64)
    row = only(analyse(trace))
    assert row["vantage"] == "responder"
    # 5 to 35 and 84 to 114: 30 ms each; 36 to 70 is the initiator's turn and the way to it and back, 70 to 80 its pause
    assert row["path_rtt_ns"] == 30 * MS
    assert row["network_ns"] == 90 * MS
    assert row["responder_ns"] == (5 + 1 + 4) * MS
    assert row["initiator_ns"] == (4 + 10) * MS


def test_a_later_quick_mode_is_not_the_set_up():
    old = Old()
    first, later = old.quick(), old.quick()
    messages = old.phase1 + first
    analysis = analyse(played([*messages, *later, old.informational()]))
    row = only(analysis)
    assert row["initiator_bytes"] + row["responder_bytes"] == size(messages)
    assert (row["after_setup_initiator_messages"], row["after_setup_responder_messages"]) == (3, 1)
    assert [phase["messages"] for phase in row["phases"]] == [6, 3]
    assert row["setup_ns"] == 80 * MS


def test_informational_messages_are_never_answered():
    old = Old()
    one = old.informational()
    other = (old.encrypted(ikev1.INFORMATIONAL, 64, 77), False)
    analysis = analyse(played([*old.phase1, *old.quick(), one, other]))
    late = analysis.exchanges.tail(2)
    assert rows(late, "initiated_by", "request_messages", "response_messages") == [
        ("initiator", 1, None),
        ("responder", 1, None),
    ]
    assert only(analysis)["outcome"] == "completed"


def clear_error(cookies, kind=14):
    body = (1).to_bytes(4, "big") + bytes([1, 0]) + kind.to_bytes(2, "big")
    return ikev1.message(cookies[:8], cookies[8:], ikev1.INFORMATIONAL, [(ikev1.NOTIFY, body)])


def test_no_proposal_chosen_in_the_clear():
    old = Old()
    error = (clear_error(old.cookies[:8] + bytes(8)), False)
    row = only(analyse(played([old.phase1[0], error])))
    assert row["outcome"] == "failed"
    assert row["reason"].replace("-", "_") == "NO_PROPOSAL_CHOSEN"
    assert row["setup_ns"] is None


def test_an_error_after_the_set_up_is_not_its_reason():
    old = Old()
    row = only(analyse(played([*old.phase1, *old.quick(), (clear_error(old.cookies, 4), False)])))
    assert (row["outcome"], row["reason"]) == ("completed", None)


def test_main_mode_alone_is_completed():
    assert only(analyse(played(Old().phase1)))["outcome"] == "completed"


@pytest.mark.parametrize("kept", range(1, 6))
def test_incomplete_main_mode_is_cut(kept):
    assert only(analyse(played(Old().phase1[:kept])))["outcome"] == "cut"


@pytest.mark.parametrize("cut", range(1, 6))
def test_main_mode_whose_beginning_is_missing(cut):
    row = only(analyse(played(Old().phase1[cut:])))
    assert row["outcome"] == "cut"
    assert row["initiator_messages"] + row["responder_messages"] == 6 - cut


def test_two_ikev1_handshakes_at_once():
    one, other = Old(1), Old(2)
    first, last = one.phase1 + one.quick(), other.phase1 + other.quick()
    trace = played(first)
    for place, (data, by_initiator) in enumerate(last):
        source = {True: "192.0.2.7", False: None}[by_initiator]
        target = {True: None, False: "192.0.2.7"}[by_initiator]
        trace.send(place * 10 * MS + 3 * MS, data, from_initiator=by_initiator, source=source, destination=target)
    analysis = analyse(trace)
    assert rows(analysis.handshakes, "initiator_address", "outcome", "initiator_messages") == [
        ("192.0.2.1", "completed", 5),
        ("192.0.2.7", "completed", 5),
    ]


def test_ipv6_addresses_are_text():
    handshake = Handshake(1, initiator="2001:db8::1", responder="2001:db8:0:0:0:0:0:2")
    trace = Trace()
    trace.play(handshake.setup())
    row = only(analyse(trace))
    assert (row["initiator_address"], row["responder_address"]) == ("2001:db8::1", "2001:db8::2")


def test_ip_fragments_are_frames_of_one_message():
    handshake = Handshake(1)
    start = handshake.init()
    request, response = handshake.exchange(ike.IKE_AUTH, (3000, 200))
    trace = Trace()
    trace.play(start)
    packets = trace.message(SECOND, request)
    trace.message(SECOND + 20 * MS, response)
    row = only(analyse(trace))
    assert len(packets) == 3
    assert (row["initiator_messages"], row["initiator_frames"], row["ip_fragments"]) == (2, 4, 3)
    assert row["initiator_bytes"] == AROUND + len(start[0].datagrams[0]) + sum(len(packet.data) for packet in packets)
    assert row["blowup"] == 1.0


def test_an_error_about_an_esp_packet_fails_no_handshake():
    """INVALID-SPI (11) of protocol ESP (3), in an informational message of its own (RFC 2408, section 3.14.1)."""
    notify = struct.pack(">IBBH", 1, 3, 4, 11) + b"\1\2\3\4"
    data = ikev1.message(b"a cookie", bytes(8), ikev1.INFORMATIONAL, [(11, notify)])
    row = only(analyse(played([(data, True)])))
    assert (row["outcome"], row["reason"], row["initiator_messages"]) == ("cut", None, 0)
