"""HIP gets the same tables as IKE (RFC 7401, RFC 8046, draft-ietf-hip-dex)."""

from random import Random

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.analyse_captures import MS, Handshake, Trace, analyse, analyse_files, at, obey, only, rows
from tests.craft import SECOND, hip, ipv4
from tests.craft.hip import Association
from tests.craft.link import ethernet

#: Ethernet and IPv4.
AROUND = 14 + 20


def play(trace, association, packets, *, begin=0, step=10):
    """Packets `step` ms apart; gives what was added."""
    return [trace.ip((begin + place * step) * MS, association.ip(packet)) for place, packet in enumerate(packets)]


def recorded(association, packets, **options):
    trace = Trace(**options)
    play(trace, association, packets)
    return trace


MESSAGES = ("type", "sender", "kind", "transmission", "set_up", "bytes")
EXCHANGES = ("type", "initiated_by", "set_up", "request_messages", "response_messages")


@pytest.mark.parametrize("method", ["BEX", "DEX"])
def test_a_base_exchange_is_one_handshake(method):
    association = Association(1, method)
    packets = association.setup()
    analysis = analyse(recorded(association, packets), vantage="initiator")
    i1, r1, i2, r2 = (AROUND + len(packet.data) for packet in packets)
    assert rows(analysis.messages, *MESSAGES) == [
        ("I1", "initiator", "request", 1, True, i1),
        ("R1", "responder", "response", 1, True, r1),
        ("I2", "initiator", "request", 1, True, i2),
        ("R2", "responder", "response", 1, True, r2),
    ]
    assert rows(analysis.exchanges, *EXCHANGES, "rtt_ns") == [
        ("I1-R1", "initiator", True, 1, 1, 10 * MS),
        ("I2-R2", "initiator", True, 1, 1, 10 * MS),
    ]
    row = only(analysis)
    assert (row["protocol"], row["outcome"], row["reason"]) == ("HIP", "completed", None)
    assert (row["spi_i"], row["spi_r"], row["initiator_port"], row["responder_port"]) == (None,) * 4
    assert (row["initiator_address"], row["responder_address"]) == ("192.0.2.1", "192.0.2.2")
    assert row["initiator_hit"].startswith("2001:2")
    assert bytes.fromhex("".join(part.rjust(4, "0") for part in row["responder_hit"].split(":"))) == association.hit_r
    assert (row["initiator_messages"], row["initiator_bytes"]) == (2, i1 + i2)
    assert (row["responder_messages"], row["responder_bytes"]) == (2, r1 + r2)
    assert [(phase["type"], phase["messages"], phase["bytes"]) for phase in row["phases"]] == [
        ("I1-R1", 2, i1 + r1),
        ("I2-R2", 2, i2 + r2),
    ]
    assert (row["setup_ns"], row["start_ns"], row["end_ns"]) == (30 * MS, at(0), at(30))
    # the two turns of the responder hold the path, whose round trip is the shorter one: nothing is left
    assert (row["network_ns"], row["initiator_ns"], row["responder_ns"]) == (20 * MS, 10 * MS, 0)
    assert (row["retransmitted_messages"], row["blowup"], row["one_sided"]) == (0, 1.0, None)


def test_base_exchanges_in_udp_and_over_ipv6_are_handshakes():
    association = Association(2, "DEX", initiator="2001:db8::1", responder="2001:db8::2", udp=True)
    row = only(analyse(recorded(association, association.setup())))
    assert (row["initiator_port"], row["responder_port"]) == (10500, 10500)
    assert (row["initiator_address"], row["outcome"]) == ("2001:db8::1", "completed")


def test_repeated_packets_are_retransmissions():
    association = Association(3)
    i1, r1, i2, r2 = association.setup()
    trace = Trace()
    for time, one in ((0, i1), (500, i1), (1500, i1), (1510, r1), (1520, i2), (2020, i2), (2030, r2)):
        trace.ip(time * MS, association.ip(one))
    analysis = analyse(trace)
    assert rows(analysis.messages, "type", "transmission") == [
        ("I1", 1), ("I1", 2), ("I1", 3), ("R1", 1), ("I2", 1), ("I2", 2), ("R2", 1),
    ]  # fmt: skip
    assert rows(analysis.exchanges, "request_messages", "rtt_ns", "wait_ns") == [
        (3, 10 * MS, 1500 * MS),
        (2, 10 * MS, 500 * MS),
    ]
    row = only(analysis)
    again = 2 * (AROUND + len(i1.data)) + AROUND + len(i2.data)
    assert (row["retransmitted_messages"], row["retransmitted_bytes"]) == (3, again)
    assert row["retransmission_wait_ns"] == 2000 * MS
    assert row["setup_ns"] == 2030 * MS


def test_another_puzzle_for_each_i1():
    association = Association(4)
    i1, first, i2, r2 = association.setup()
    second = association.r1(12)
    analysis = analyse(recorded(association, [i1, first, i1, second, i2, r2]))
    assert rows(analysis.messages, "type", "transmission") == [
        ("I1", 1), ("R1", 1), ("I1", 2), ("R1", 1), ("I2", 1), ("R2", 1),
    ]  # fmt: skip
    assert rows(analysis.exchanges, *EXCHANGES[3:]) == [(2, 2), (1, 1)]
    assert only(analysis)["outcome"] == "completed"


@pytest.mark.parametrize(
    ("kept", "idle", "outcome", "one_sided"),
    [
        ("I1", 0, "cut", None),
        ("I1", 10, "unanswered", None),
        ("I1 R1", 0, "cut", None),
        ("I1 R1", 10, "half-open", None),
        ("I1 R1 I2", 0, "cut", None),
        ("I1 R1 I2", 10, "unanswered", None),
        ("R1 I2 R2", 0, "cut", None),
        ("I2 R2", 0, "cut", None),
        ("I1 I2 R2", 0, "completed", None),
        ("I1 I2", 0, "cut", "initiator"),
        ("R1 R2", 0, "cut", "responder"),
        ("I1 R1 I2 R2", 0, "completed", None),
    ],
)
def test_outcome_follows_from_the_packets_of_the_capture(kept, idle, outcome, one_sided):
    association = Association(5)
    packets = dict(zip(("I1", "R1", "I2", "R2"), association.setup(), strict=True))
    trace = recorded(association, [packets[name] for name in kept.split()])
    if idle:
        trace.add(idle * SECOND, ethernet(ipv4(bytes(8), protocol=50)))
    row = only(analyse(trace))
    assert (row["outcome"], row["one_sided"]) == (outcome, one_sided)


def test_a_refusal_is_a_failure_with_its_reason():
    association = Association(6)
    i1, r1, i2, _ = association.setup()
    refusal = association.notify(hip.BLOCKED_BY_POLICY)
    row = only(analyse(recorded(association, [i1, r1, i2, refusal])))
    assert (row["outcome"], row["reason"]) == ("failed", "BLOCKED_BY_POLICY")
    assert (row["responder_messages"], row["after_setup_responder_messages"]) == (1, 1)
    row = only(analyse(recorded(association, [i1, refusal])))
    assert (row["outcome"], row["reason"]) == ("failed", "BLOCKED_BY_POLICY")


def test_a_notify_that_is_no_refusal():
    association = Association(7)
    i1, r1, i2, r2 = association.setup()
    status = association.notify(hip.I2_ACKNOWLEDGEMENT)
    row = only(analyse(recorded(association, [i1, r1, i2, status, r2])))
    assert (row["outcome"], row["reason"]) == ("completed", None)
    late = association.notify(hip.BLOCKED_BY_POLICY)
    row = only(analyse(recorded(association, [i1, r1, i2, r2, late])))
    assert (row["outcome"], row["reason"]) == ("completed", None)


def test_exchanges_after_the_base_exchange_are_not_set_up():
    association = Association(8)
    packets = association.setup()
    packets += association.update() + association.update(by_initiator=False) + association.acknowledged()
    packets += [association.notify(40), association.notify(42), *association.close(by_initiator=False)]
    analysis = analyse(recorded(association, packets))
    assert rows(analysis.exchanges.filter(~pl.col("set_up")), *EXCHANGES, "message_id", "attempt") == [
        ("UPDATE", "initiator", False, 1, 1, 1, 1),
        ("UPDATE", "initiator", False, 1, None, 1, 1),  # acknowledges the acknowledgement
        ("UPDATE", "responder", False, 1, 1, 2, 1),
        ("UPDATE", "responder", False, 1, None, 2, 1),
        ("UPDATE", "initiator", False, 1, 1, 3, 1),
        ("NOTIFY", "responder", False, 1, None, 0, 1),
        ("NOTIFY", "responder", False, 1, None, 1, 1),
        ("CLOSE-CLOSE_ACK", "responder", False, 1, 1, 0, 1),
    ]
    assert analysis.messages["type"].to_list()[4:] == ["UPDATE"] * 8 + ["NOTIFY"] * 2 + ["CLOSE", "CLOSE_ACK"]
    row = only(analysis)
    assert (row["outcome"], row["initiator_messages"], row["responder_messages"]) == ("completed", 2, 2)
    assert row["after_setup_initiator_messages"] + row["after_setup_responder_messages"] == 12


def test_packet_types_without_a_rule():
    association = Association(9)
    packets = [*association.setup(), association.message(9, [(4242, b"aka")]), association.message(34)]
    analysis = analyse(recorded(association, packets))
    assert rows(analysis.messages, "type", "kind", "set_up")[4:] == [
        ("9", "request", False),
        ("34", "request", False),
    ]
    assert only(analysis)["outcome"] == "completed"


@pytest.mark.parametrize(
    ("before", "pause", "outcome"),
    [
        (lambda one: [*one.setup(), *one.close()], 1, "completed"),
        (lambda one: one.setup()[:3], 10, "unanswered"),
        (lambda one: one.setup()[:1], 300, "unanswered"),
    ],
    ids=["closed", "I2 without answer", "silence"],
)
def test_the_same_hosts_can_set_up_another_association(before, pause, outcome):
    first = Association(10)
    second = Association(11, hits=(first.hit_i, first.hit_r))
    trace = Trace()
    play(trace, first, before(first))
    play(trace, second, second.setup(), begin=1000 * pause)
    assert analyse(trace).handshakes["outcome"].to_list() == [outcome, "completed"]


def test_i1_again_within_the_silence_is_a_retransmission():
    association = Association(12)
    i1, r1, i2, r2 = association.setup()
    trace = Trace()
    trace.ip(0, association.ip(i1))
    play(trace, association, [i1, r1, i2, r2], begin=100_000)
    row = only(analyse(trace))
    assert (row["outcome"], row["retransmitted_messages"]) == ("completed", 1)


def test_a_late_r1_of_another_association():
    """I1 is not in the capture, the contents of R1 and I2 are new: they begin another association."""
    first = Association(13)
    second = Association(14, hits=(first.hit_i, first.hit_r))
    trace = Trace()
    play(trace, first, first.setup())
    play(trace, second, second.setup()[1:], begin=500)
    assert analyse(trace).handshakes["outcome"].to_list() == ["completed", "cut"]


def test_crossing_i1_packets_are_two_attempts():
    """I1s that cross are two attempts (RFC 7401, section 6.7): here the second one is dropped."""
    association = Association(15)
    other = Association(
        16,
        hits=(association.hit_r, association.hit_i),
        initiator=association.responder,
        responder=association.initiator,
    )
    trace = Trace()
    play(trace, association, association.setup())
    trace.ip(1 * MS, other.ip(other.i1()))
    analysis = analyse(trace)
    assert rows(analysis.handshakes, "initiator_address", "initiator_messages", "outcome") == [
        ("192.0.2.1", 2, "completed"),
        ("192.0.2.2", 1, "cut"),
    ]


def test_an_opportunistic_base_exchange_is_one_handshake():
    association = Association(17, opportunistic=True)
    trace = Trace()
    trace.ip(0, association.ip(association.i1()))
    play(trace, association, association.setup(), begin=100)
    row = only(analyse(trace))
    assert (row["outcome"], row["retransmitted_messages"]) == ("completed", 1)
    assert row["responder_hit"] is not None
    row = only(analyse(recorded(association, [association.i1()])))
    assert (row["outcome"], row["responder_hit"]) == ("cut", None)


@pytest.mark.parametrize("same_r1", [False, True], ids=["another R1", "the same R1"])
def test_the_same_hosts_repeat_an_opportunistic_base_exchange(same_r1):
    """An R1 answers the I1 before it, even if its hosts had an association before (RFC 7401, section 4.1.8)."""
    first = Association(27, opportunistic=True)
    second = Association(28, hits=(first.hit_i, first.hit_r), opportunistic=True)
    i1, r1, i2, r2 = first.setup()
    other_i1, other_r1, other_i2, other_r2 = second.setup()
    trace = Trace()
    play(trace, first, [i1, r1, i2, r2])
    play(trace, second, [other_i1, r1 if same_r1 else other_r1, other_i2, other_r2], begin=300_000)
    analysis = analyse(trace)
    assert rows(analysis.handshakes, "outcome", "initiator_messages", "responder_messages") == [("completed", 2, 2)] * 2


def test_an_unanswered_opportunistic_attempt_stays_unanswered():
    """R1 answers the I1 with both HITs, which was sent later."""
    opportunistic = Association(29, opportunistic=True)
    association = Association(30, hits=(opportunistic.hit_i, opportunistic.hit_r))
    trace = Trace()
    trace.ip(0, opportunistic.ip(opportunistic.i1()))
    play(trace, association, association.setup(), begin=20_000)
    assert analyse(trace).handshakes["outcome"].to_list() == ["unanswered", "completed"]


@pytest.mark.parametrize(
    ("kept", "outcome"),
    [("I1 I2 R2", "completed"), ("I1 R2", "cut"), ("I1 R1 R2", "completed")],
)
def test_an_opportunistic_base_exchange_of_which_the_capture_lacks_packets(kept, outcome):
    association = Association(31, opportunistic=True)
    packets = dict(zip(("I1", "R1", "I2", "R2"), association.setup(), strict=True))
    row = only(analyse(recorded(association, [packets[name] for name in kept.split()])))
    assert row["outcome"] == outcome
    assert row["initiator_messages"] + row["responder_messages"] == len(kept.split())
    assert row["responder_hit"] is not None


def test_hits_that_end_in_zeros():
    hits = (bytes.fromhex("20010021") + bytes(10) + b"\1\0", bytes.fromhex("20010021") + bytes(9) + b"\1\0\0")
    association = Association(18, hits=hits)
    row = only(analyse(recorded(association, association.setup())))
    assert (row["initiator_hit"], row["responder_hit"]) == ("2001:21::100", "2001:21::1:0")


def test_only_what_follows_is_in_the_capture():
    association = Association(19)
    row = only(analyse(recorded(association, association.update(by_initiator=False))))
    # who speaks first is taken for the initiator
    assert (row["initiator_address"], row["outcome"], row["setup_ns"]) == ("192.0.2.2", "cut", None)


def test_ip_fragments_of_hip_are_one_datagram():
    association = Association(20)
    i1, r1, i2, r2 = association.setup()
    trace = recorded(association, [i1, r1, i2, r2], mtu=576)
    analysis = analyse(trace)
    # 576 bytes leave room for 552 of the payload in each fragment
    fragments = [-(-len(item.data) // 552) for item in (i1, r1, i2, r2)]
    assert fragments[1:3] == [2, 2]
    assert analysis.messages["frames"].to_list() == fragments
    row = only(analysis)
    assert (row["outcome"], row["ip_fragments"]) == ("completed", 4)
    assert row["auth_responder"] == "rsa"


def test_cut_by_the_snapshot_length():
    association = Association(21)
    trace = recorded(association, [*association.setup(), *association.update()])
    row = only(analyse(trace.pcap(snaplen=100)))
    # the HITs are there, and nearly nothing of the parameters
    assert (row["outcome"], row["auth_responder"]) == ("completed", None)


def test_beside_ike_and_in_order():
    trace = Trace()
    hosts = [Association(seed, "DEX") for seed in (22, 23)]
    play(trace, hosts[0], hosts[0].setup())
    trace.play(Handshake(24).setup(), at=5 * MS)
    play(trace, hosts[1], hosts[1].setup(), begin=7)
    trace.play(Handshake(25).setup(), at=8 * MS)
    analysis = analyse(trace)
    assert analysis.handshakes["protocol"].to_list() == ["HIP", "IKEv2", "HIP", "IKEv2"]
    assert analysis.handshakes["outcome"].to_list() == ["completed"] * 4
    assert [len(spi or "") for spi in analysis.handshakes["spi_i"]] == [0, 16, 0, 16]
    assert analysis.handshakes["initiator_hit"].is_null().to_list() == [False, True, False, True]
    alone = analyse(recorded(hosts[1], Association(23, "DEX").setup()))
    same = (
        "initiator_hit",
        "responder_hit",
        "setup_ns",
        "initiator_bytes",
        "responder_bytes",
        "auth_initiator",
    )
    assert rows(analysis.handshakes, *same)[2] == rows(alone.handshakes, *same)[0]


def test_captures_read_together(tmp_path):
    """The same hosts with the same HITs in each: they stay apart."""
    traces = [recorded(Association(26), Association(26).setup()[: 4 - number]) for number in range(3)]
    analysis = obey(analyse_files(tmp_path, *traces))
    assert analysis.handshakes["outcome"].to_list() == ["completed", "cut", "cut"]
    assert analysis.handshakes["capture"].n_unique() == 3


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(0, 2), st.integers(0, 2), st.binary(max_size=24)),
        max_size=12,
    )
)
def test_any_packets_obey_the_laws(packets):
    hits = [bytes(16), b"\x20" + bytes(15), b"\x20" + bytes(14) + b"\1"]
    rng = Random(1)
    trace = Trace()
    for place, (kind, sender, receiver, body) in enumerate(packets):
        data = hip.packet(kind, hits[sender], hits[receiver])
        body += bytes(-len(body) % 8)
        data = data[:1] + bytes([(40 + len(body)) // 8 - 1]) + data[2:] + body
        trace.ip(place * MS * rng.choice([1, 200_000]), ipv4(data, protocol=139))
    analyse(trace, payloads=True)


SERVER, SECOND_SERVER = "192.0.2.3", "192.0.2.4"
DIRECT = ("outcome", "initiator_address", "responder_address", "initiator_messages", "retransmitted_messages")


def through_server(association, *, sent=(0,), relayed=(2,)):
    """A base exchange whose I1 goes to a rendezvous server, at these times in ms (RFC 8004, section 3.3)."""
    trace = Trace()
    i1, r1, i2, r2 = association.setup()
    copy = association.relayed_i1()
    for time in sent:
        trace.ip(time * MS, association.ip(i1, destination=SERVER))
    for time in relayed:
        trace.ip(time * MS, association.ip(copy, source=SERVER))
    for time, packet in zip((1010, 1020, 1030), (r1, i2, r2), strict=True):
        trace.ip(time * MS, association.ip(packet))
    return trace


def test_an_i1_that_a_rendezvous_server_relayed_is_no_message_of_its_own():
    association = Association(7)
    analysis = analyse(through_server(association))
    row = only(analysis)
    assert [row[name] for name in DIRECT] == ["completed", "192.0.2.1", "192.0.2.2", 2, 0]
    assert (row["setup_ns"], row["capture_duplicates"], row["blowup"]) == (1030 * MS, 1, 1.0)
    assert rows(analysis.frames, "capture_duplicate", "handshake", "message")[:2] == [(False, 1, 0), (True, 1, 0)]
    assert analysis.captures[0].accounting["hip"] == 5


@pytest.mark.parametrize(
    ("sent", "relayed"),
    [((0, 500), (2, 502)), ((0, 500), (502,)), ((0, 500), (600, 601))],
    ids=["each", "one lost before the server", "late"],
)
def test_a_retransmitted_i1_is_relayed_again(sent, relayed):
    row = only(analyse(through_server(Association(8), sent=sent, relayed=relayed)))
    assert [row[name] for name in DIRECT] == ["completed", "192.0.2.1", "192.0.2.2", 3, 1]
    assert row["capture_duplicates"] == len(relayed)


def test_relayed_packets_alone_are_those_of_the_initiator():
    """A capture at the responder."""
    row = only(analyse(through_server(Association(9), sent=(), relayed=(0, 500))))
    assert [row[name] for name in DIRECT] == ["completed", "192.0.2.1", "192.0.2.2", 3, 1]
    assert row["capture_duplicates"] == 0


def test_two_rendezvous_servers_relay_one_message():
    association = Association(10)
    trace = through_server(association, relayed=())
    once, twice = association.relayed_i1(), association.relayed_i1("192.0.2.1", SERVER)
    trace.ip(2 * MS, association.ip(once, source=SERVER, destination=SECOND_SERVER))
    trace.ip(4 * MS, association.ip(twice, source=SECOND_SERVER))
    row = only(analyse(trace))
    assert [row[name] for name in DIRECT] == ["completed", "192.0.2.1", "192.0.2.2", 2, 0]
    assert row["capture_duplicates"] == 2
