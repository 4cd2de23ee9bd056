"""The whole way, on traces that nobody would make by hand: whatever the capture holds, the laws hold."""

import signal
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import ikeanalyze
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import _load_steps, read_captures
from tests.analysis.analyse_captures import analyse, analyse_files, obey, only, unsorted
from tests.craft import MS, SECOND, Handshake, Packet, Trace, ike, pcap, udp_packet
from tests.craft.link import ethernet
from tests.craft.trace import START_NS
from tests.craft.transport import NON_ESP_MARKER
from tests.paths import CAPTURES

#: Seeds are not worth shrinking.
GENERATE = (Phase.explicit, Phase.generate)
FEW = settings(max_examples=20, phases=GENERATE)


def random_trace(seed: int) -> Trace:
    """Several handshakes at once, with losses, retransmissions, duplicates and things out of order."""
    rng = Random(seed)
    trace = Trace()
    shared = rng.randbytes(8)
    for _ in range(rng.randrange(1, 5)):
        handshake = Handshake(rng, initiator=f"192.0.2.{rng.choice((1, 3, 5))}", switch=rng.random() < 0.8)
        if rng.random() < 0.2:
            handshake.spi_i = shared
        messages = handshake.setup(
            before=rng.choice((None, None, "COOKIE", "INVALID_KE_PAYLOAD", "both")),
            intermediate=rng.choice(((), ((2, 2),), ((1, 1), (3, 2)))),
            auth=rng.choice(((1, 1), (2, 3), (4, 1))),
            eap=rng.choice((None, None, 2)),
        )
        for _ in range(rng.randrange(3)):
            messages += handshake.informational(by_initiator=rng.random() < 0.5)
        time = rng.randrange(0, 2 * SECOND)
        for message in messages:
            for _copy in range(rng.choice((1, 1, 1, 2, 3))):
                count = len(message.datagrams)
                kept = [part for part in range(1, count + 1) if rng.random() < 0.9]
                packets = trace.message(time, message, only=kept, gap=rng.choice((20_000, 400_000)))
                if rng.random() < 0.05:
                    trace.repeat(packets, rng.choice((10_000, 900_000, 5 * MS)))
                time += rng.choice((300 * MS, 700 * MS))
            time += rng.randrange(0, 30 * MS) - rng.choice((0, 0, 0, 400 * MS))
            time = max(time, 0)
        if rng.random() < 0.3:
            trace.drop(rng.sample(trace.packets, len(trace.packets) // 3))
    return trace


@FEW
@given(st.integers(0, 2**32), st.sampled_from((262144, 110, 96, 74, 500)))
def test_laws_hold_for_random_traces(seed, snaplen):
    trace = random_trace(seed)
    analysis = analyse(trace.pcap(snaplen=snaplen))
    assert analysis.captures[0].packets == len(trace.packets)


@FEW
@given(st.integers(0, 2**32), st.randoms(use_true_random=False))
def test_laws_hold_for_packets_out_of_order(seed, rng):
    packets = random_trace(seed).packets
    for _ in range(3):
        at = rng.randrange(len(packets) or 1)
        packets[at : at + 4] = rng.sample(packets[at : at + 4], len(packets[at : at + 4]))
    analyse(unsorted(packets))


@pytest.mark.exhaustive
@FEW
@given(st.integers(0, 2**32))
def test_order_in_the_file_changes_nothing_but_frame_numbers(seed):
    packets = [Packet(packet.time_ns + place, packet.data) for place, packet in enumerate(random_trace(seed).packets)]
    shuffled = list(packets)
    Random(seed).shuffle(shuffled)
    first, second = analyse(unsorted(packets)), analyse(unsorted(shuffled))
    # a diagnosis has frame numbers, and one is about the order
    differing = ("capture", "first_frame", "diagnosis")
    for name in ("messages", "exchanges", "handshakes"):
        one, other = (getattr(item, name).drop(differing, strict=False) for item in (first, second))
        assert one.equals(other)


payload_types = st.one_of(st.integers(0, 255), st.sampled_from((33, 34, 40, 41, 43, 46, 53, 132)))
payload_chain = st.lists(st.tuples(payload_types, st.binary(max_size=60)), max_size=6)
spis = st.sampled_from((bytes(8), bytes(7) + b"\1", b"\xff" * 8, b"\x80" + bytes(7)))


@st.composite
def garbage(draw):
    """Something that has an IKE header."""
    first, body = ike.chain(draw(payload_chain))
    body = body[: draw(st.integers(0, len(body)))] if draw(st.booleans()) else body
    return (
        ike.ike_header(
            draw(spis),
            draw(spis),
            draw(st.one_of(st.just(first), payload_types)),
            draw(st.one_of(st.sampled_from((2, 4, 5, 6, 32, 34, 35, 36, 37, 38, 43, 44)), st.integers(0, 255))),
            draw(st.integers(0, 255)),
            draw(st.one_of(st.integers(0, 2), st.integers(0, 2**32 - 1))),
            28 + len(body),
            draw(st.sampled_from((0x10, 0x20, 0x21, 0x1F))),
        )
        + body
    )


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(garbage(), st.booleans(), st.booleans(), st.integers(0, 3_000_000_000), st.integers(0, 3)),
        max_size=12,
    )
)
def test_nothing_raises_on_garbage(sent):
    trace = Trace()
    for data, there, floated, time, copies in sent:
        port = 4500 if floated else 500
        payload = NON_ESP_MARKER + data if floated else data
        packets = trace.send(time, payload, sport=port, dport=port, from_initiator=there)
        for copy in range(copies):
            trace.repeat(packets, 300_000 << (copy * 8))
    analysis = analyse(trace)
    accounting = analysis.captures[0].accounting
    assert accounting["ike"] + accounting["malformed"] == len(trace.packets)
    assert len(analysis.frames) == accounting["ike"]


def test_a_capture_without_ike_has_no_handshakes():
    trace = Trace()
    for time in range(5):
        trace.ip(time, udp_packet(b"question", 5353, 53))
    analysis = analyse(trace)
    assert [len(getattr(analysis, name)) for name in ("frames", "messages", "exchanges", "handshakes")] == [0] * 4
    assert analysis.captures[0].accounting["other"] == 5


def test_an_empty_capture_has_empty_tables():
    analysis = analyse(pcap([]))
    (capture,) = analysis.captures
    assert (capture.packets, capture.first_ns, capture.last_ns) == (0, None, None)
    assert len(analysis.handshakes) == 0


def test_several_captures_and_a_bad_one(tmp_path):
    traces = []
    for seed in (1, 2):
        trace = Trace()
        trace.play(Handshake(seed).setup())
        traces.append(trace)
    analysis = obey(analyse_files(tmp_path, traces[0], b"this is no capture", pcap([]), traces[1]))
    assert analysis.handshakes["handshake"].to_list() == [1, 2]
    assert analysis.messages["message"].to_list() == list(range(8))
    assert analysis.exchanges["exchange"].to_list() == list(range(4))
    assert analysis.handshakes["capture"].to_list() == [str(tmp_path / "0.pcap"), str(tmp_path / "3.pcap")]
    assert analysis.frames["number"].to_list() == [1, 2, 3, 4] * 2
    (bad,) = analysis.skipped
    assert bad.path == str(tmp_path / "1.pcap")
    assert bad.reason
    assert "\n" not in bad.reason
    assert len(analysis.captures) == 3


def test_nothing_but_a_bad_capture(tmp_path):
    analysis = analyse_files(tmp_path, b"no")
    assert len(analysis.skipped) == 1
    assert len(analysis.handshakes) == len(analysis.frames) == 0


def test_the_same_handshake_in_two_captures_is_two(tmp_path):
    trace = Trace()
    trace.play(Handshake(1).setup())
    analysis = analyse_files(tmp_path, trace, trace)
    assert analysis.handshakes["spi_i"].n_unique() == 1
    assert analysis.handshakes["initiator_messages"].to_list() == [2, 2]


def test_a_file_that_is_cut_in_the_middle_still_counts(tmp_path):
    trace = Trace()
    trace.play(Handshake(1).setup())
    data = trace.pcap()
    analysis = obey(analyse_files(tmp_path, data[: len(data) - 10]))
    assert analysis.captures[0].damaged
    assert only(analysis)["outcome"] == "cut"
    assert len(analysis.messages) == 3


def test_ports_that_are_asked_for():
    handshake = Handshake(1, switch=False)
    trace = Trace()
    for time, message in enumerate(handshake.setup()):
        ports = (40000, 10500) if message.from_initiator else (10500, 40000)
        (data,) = message.datagrams
        trace.send(time * MS, data, sport=ports[0], dport=ports[1], from_initiator=message.from_initiator)
    assert len(analyse(trace).handshakes) == 0
    row = only(analyse(trace, ports=[10500]))
    assert (row["initiator_port"], row["responder_port"], row["outcome"]) == (40000, 10500, "completed")


def test_vlan_frames_have_their_own_length():
    handshake = Handshake(1)
    messages = handshake.setup()
    trace = Trace(frame=lambda packet: ethernet(packet, vlans=[(0x8100, 5)]))
    trace.play(messages)
    expected = sum(14 + 4 + 20 + 8 + len(message.datagrams[0]) for message in messages if message.from_initiator)
    assert only(analyse(trace))["initiator_bytes"] == expected


def test_progress_is_reported(tmp_path):
    path = tmp_path / "one.pcap"
    trace = Trace()
    trace.play(Handshake(1).setup())
    trace.write(path)
    reported: list[tuple[int, int | None]] = []
    ikeanalyze.read(str(path), progress=lambda done, size: reported.append((done, size)))
    assert reported[-1] == (path.stat().st_size,) * 2


@pytest.mark.parametrize("ticks", [6, 3])
def test_coarse_clocks_do_not_break_the_order(ticks):
    """Request and response with the same time: the file's order is all there is."""
    messages = Handshake(1).setup()
    step = 10 ** (9 - ticks)
    packets = []
    for place, message in enumerate(messages):
        packet = udp_packet(message.datagrams[0], message.sport, message.dport, message.source, message.destination)
        packets.append(Packet(START_NS + place // 2 * step, ethernet(packet)))
    analysis = analyse(unsorted(packets))
    row = only(analysis)
    assert row["outcome"] == "completed"
    assert row["setup_ns"] == step
    assert analysis.exchanges["rtt_ns"].to_list() == [0, 0]


def test_tables_are_told_as_they_become_complete():
    told = {}
    found = read_captures(CAPTURES / "eap-md5-radius.pcapng", ReadOptions(on_table=told.__setitem__))
    assert set(told) == {"frames", "messages", "exchanges", "handshakes"}
    for name, table in told.items():
        assert_frame_equal(table, getattr(found, name))


def test_tables_of_several_captures_are_not_told_one_by_one():
    reported = []
    read_captures(
        [CAPTURES / "psk-classic.pcap", CAPTURES / "invalid-ke.pcap"],
        ReadOptions(on_table=lambda *table: reported.append(table)),
    )
    assert reported == []


def test_without_the_table_of_frames_the_others_are_the_same():
    path = CAPTURES / "eap-md5-radius.pcapng"
    whole, without = (read_captures(path, ReadOptions(frames_table=wanted)) for wanted in (True, False))
    assert (whole.frames.is_empty(), without.frames.is_empty()) == (False, True)
    assert without.frames.schema == whole.frames.schema
    for name in ("messages", "exchanges", "handshakes"):
        assert_frame_equal(getattr(without, name), getattr(whole, name))
    assert without.warnings == whole.warnings


def test_without_the_table_of_messages_the_others_are_the_same():
    paths = [CAPTURES / "eap-md5-radius.pcapng", CAPTURES / "psk-classic.pcap"]
    whole, without = (read_captures(paths, ReadOptions(messages_table=wanted)) for wanted in (True, False))
    assert (whole.messages.is_empty(), without.messages.is_empty()) == (False, True)
    assert without.messages.schema == whole.messages.schema
    for name in ("exchanges", "handshakes"):
        assert_frame_equal(getattr(without, name), getattr(whole, name))


def test_ctrl_c_while_modules_are_loaded_ends_it_afterwards():
    """Within an import it could leave a lock, for which the thread that reads the capture would wait."""
    loaded = []

    def press_ctrl_c():
        signal.raise_signal(signal.SIGINT)
        loaded.append("all")
        return 0

    with pytest.raises(KeyboardInterrupt):
        _load_steps(ReadOptions(), press_ctrl_c, with_keys=True)
    assert loaded == ["all"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
