import json
import shutil
from dataclasses import replace

import dpkt
import polars as pl
import pytest

import ikeanalyze
from ikeanalyze.model.prediction.extract import FlowError, extract_flow
from ikeanalyze.model.prediction.layout import packetize_over_udp
from ikeanalyze.model.prediction.link import LinkModel
from tests.analysis.slow_link import record_slow_link
from tests.craft.handshake import Handshake
from tests.craft.hip import Association
from tests.craft.packet import MS, Packet
from tests.craft.pcapng_file import pcapng
from tests.craft.trace import Trace
from tests.craft.transport import ACK, PSH, TCP_PREFIX, tcp_framed, tcp_packet
from tests.model.flows import capture, flow
from tests.paths import CAPTURES


def test_sizes_are_what_the_daemons_sent():
    # the first handshake of the log: charon says the bytes of each message that it sends
    truth = json.loads((CAPTURES / "loss20-classic.truth.json").read_text())
    sent = {side: [item[5] for item in truth[side] if item[0] == "send"][:2] for side in ("ini", "res")}
    result = flow("loss20-classic.pcap")
    assert result.handshake == 1
    assert result.others == 24
    assert [exchange.type for exchange in result.exchanges] == ["IKE_SA_INIT", "IKE_AUTH"]
    assert [part.ike_bytes for exchange in result.exchanges for part in exchange.request.parts] == sent["ini"]
    assert [part.ike_bytes for exchange in result.exchanges for part in exchange.response.parts] == sent["res"]
    # Ethernet, IPv4, UDP, and the non-ESP marker on port 4500
    assert result.bytes == sum(sent["ini"]) + sum(sent["res"]) + 4 * 42 + 2 * 4


def test_times_add_up_to_the_set_up():
    for name in ("psk-classic.pcap", "eap-md5-radius.pcapng", "lab/eap-mschapv2.pcapng", "invalid-ke.pcap"):
        result = flow(name)
        parts = sum(exchange.before_ns + exchange.answer_ns + exchange.aaa_ns for exchange in result.exchanges)
        assert parts == result.setup_ns, name


def test_messages_to_the_aaa_server_are_extracted():
    result = flow("eap-md5-radius.pcapng")
    # counted in tshark: two Access-Requests, each answered, in the third and fourth exchange
    assert [exchange.aaa_round_trips for exchange in result.exchanges] == [0, 0, 1, 1, 0]
    assert all((exchange.aaa_ns > 0) == (exchange.aaa_round_trips > 0) for exchange in result.exchanges)


def test_fragments_are_extracted_as_one_message():
    result = flow("pq-mlkem768-psk.pcap")
    # frames 3 and 4: 1294 and 112 bytes (tshark)
    assert [part.frames for part in result.exchanges[1].request.parts] == [(1294,), (112,)]
    assert result.fragmentation
    result = flow("lab/ip-fragments.pcapng")
    assert [part.frames for part in result.exchanges[1].request.parts] == [(810, 810, 810, 70)]
    assert not result.fragmentation


def test_the_one_with_the_fewest_retransmissions():
    result = flow("pq-loss15.pcap")
    table = capture("pq-loss15.pcap").handshakes
    least = table["retransmitted_messages"].min()
    assert table.filter(pl.col("handshake") == result.handshake)["retransmitted_messages"].item() == least
    # the response to a repeated request says nothing of computation
    assert result.unknown
    assert result.computation_ns("responder") is None
    assert flow("loss20-classic.pcap", 2).handshake == 2


def test_all_comparable_handshakes_give_processing_times():
    result = flow("loss20-classic.pcap")
    assert len(result.samples) == 25
    assert result.samples[0] == result.exchanges
    # the number selects one handshake alone
    alone = flow("loss20-classic.pcap", 2)
    assert (len(alone.comparable), alone.alone) == (1, True)
    # a responder that had to answer a repeated request gives no time for this exchange
    waits = capture("loss20-classic.pcap").exchanges.filter(set_up=True)["wait_ns"]
    unknown = [item.answer_ns is None for exchanges in result.samples for item in exchanges]
    assert sum(unknown) == (waits > 0).sum() > 0


def test_other_configurations_give_no_processing_times(tmp_path):
    # the same exchanges with larger certificates, and with an additional key exchange
    trace, end = Trace(), 0
    for number, sizes in enumerate([(200, 180), (200, 183), (260, 180), (200, 181)]):
        handshake = Handshake(number + 1)
        messages = handshake.init()
        messages += handshake.intermediate() if number == 3 else []
        end = trace.play(messages + handshake.auth(sizes=sizes), at=end + 1000 * MS)
    path = trace.write(tmp_path / "mixed.pcapng")
    result = extract_flow(ikeanalyze.read(path), str(path))
    assert result.others == 3
    assert [sum(item.response.bytes for item in exchanges) for exchanges in result.samples] == [
        result.samples[0][0].response.bytes + result.samples[0][1].response.bytes + more for more in (0, 3)
    ]


def test_warm_ups_are_left_out(tmp_path):
    for suffix in (".pcapng", ".manifest.json"):
        shutil.copy(CAPTURES / "lab" / f"loss20{suffix}", tmp_path)
    manifest = tmp_path / "loss20.manifest.json"
    document = json.loads(manifest.read_text())
    for handshake in document["handshakes"][:2]:
        handshake["warm_up"] = True
    manifest.write_text(json.dumps(document))
    path = str(tmp_path / "loss20.pcapng")
    result = extract_flow(ikeanalyze.read(path), path)
    assert result.handshake not in (1, 2)
    assert len(result.samples) == 8
    # if all are warm-ups, they are better than nothing
    for handshake in document["handshakes"]:
        handshake["warm_up"] = True
    manifest.write_text(json.dumps(document))
    assert len(extract_flow(ikeanalyze.read(path), path).samples) == 10


def test_a_path_on_the_far_side():
    # recorded by the responder over 600 ms: its own turns are short, the initiator's contain the path
    contained = flow("lab/satellite.pcapng", lab_manifests=False)
    assert contained.path is None
    assert contained.computation_ns("initiator") > 600_000_000
    reported = flow("lab/satellite.pcapng", vantage="responder", rtt_ms=600)
    assert reported.path == "given"
    assert reported.path_rtt_ns == 600_000_000
    assert reported.computation_ns("initiator") < 20_000_000
    assert reported.computation_ns("responder") == contained.computation_ns("responder")
    guessed = flow("lab/satellite.pcapng", vantage="responder", lab_manifests=False)
    assert guessed.path == "estimated"
    recorded = flow("lab/satellite.pcapng")
    assert (recorded.path, recorded.path_rtt_ns) == ("manifest", 600_000_000)
    # taken on the other side, the responder's turns would contain it
    other = flow("lab/satellite.pcapng", vantage="initiator", rtt_ms=600)
    assert other.computation_ns("responder") == 0
    assert other.computation_ns("initiator") > 600_000_000


def test_the_transmission_over_a_slow_link_is_not_computation(tmp_path):
    messages = Handshake(1).setup(intermediate=[(2, 1)], auth=(3, 2))
    captures = record_slow_link(tmp_path, messages, up_kbps=64, down_kbps=128, delay_ms=25, work_ms=5)
    for path in map(str, captures):
        recorded = extract_flow(ikeanalyze.read(path), path)
        assert recorded.path == "manifest"
        # both sides work for 5 ms before each message but the first
        assert recorded.computation_ns("initiator") == pytest.approx(10 * MS, abs=10_000)
        assert recorded.computation_ns("responder") == pytest.approx(15 * MS, abs=10_000)


def test_ikev1_has_messages_that_nothing_answers():
    result = flow("lab/ikev1_mode-aggressive.pcapng")
    assert result.protocol == "IKEv1"
    assert [exchange.response is None for exchange in result.exchanges] == [False, True, False, True]
    assert result.messages == 6
    assert not any(exchange.request.encrypted for exchange in result.exchanges)  # in the sense of RFC 7383
    # XAuth: the responder asks
    assert "responder" in [exchange.asker for exchange in flow("ikev1-xauth.pcap").exchanges]


def test_ipv6_handshakes_are_extracted():
    message = flow("lab/ipv6.pcapng").exchanges[0].request
    assert (message.link, message.ip, message.transport, message.marker) == (14, 40, 8, 0)


def test_handshakes_in_tcp_are_extracted(tmp_path):
    path = str(tmp_path / "tcp.pcapng")
    trace = Trace()
    sequence = [1, 1]
    sent = []
    for number, message in enumerate(Handshake(1, switch=False).setup()):
        (data,) = message.datagrams
        sent.append(len(data))
        stream = (b"" if number else TCP_PREFIX) + tcp_framed(data)
        side = number % 2  # the initiator begins
        ends = (40000, 4500, "192.0.2.1", "192.0.2.2") if side == 0 else (4500, 40000, "192.0.2.2", "192.0.2.1")
        for piece in (stream[:100], stream[100:]):
            ports, hosts = ends[:2], ends[2:]
            packet = tcp_packet(piece, *ports, sequence[side], sequence[1 - side], ACK | PSH, *hosts)
            trace.ip((10 * number + sequence[side] % 7) * MS, packet)
            sequence[side] += len(piece)
    trace.write(tmp_path / "tcp.pcapng")
    result = extract_flow(ikeanalyze.read(path), path)
    parts = [item for exchange in result.exchanges for item in (exchange.request, exchange.response)]
    # as one datagram each, with the headers that UDP 4500 would give it
    assert [(len(part.parts), part.parts[0].ike_bytes) for part in parts] == [(1, size) for size in sent]
    assert result.bytes == sum(sent) + 4 * (14 + 20 + 8 + 4)


@pytest.mark.parametrize("method", ["BEX", "DEX"])
def test_hip_handshakes_are_extracted(tmp_path, method):
    association, trace = Association(1, method), Trace()
    packets = association.setup()
    for place, packet in enumerate(packets):
        trace.ip(10 * place * MS, association.ip(packet))
    path = trace.write(tmp_path / "hip.pcapng")
    result = extract_flow(ikeanalyze.read(path, vantage="initiator", rtt_ms=4), str(path))
    assert (result.protocol, result.fragmentation) == ("HIP", False)
    assert [exchange.name for exchange in result.exchanges] == ["I1-R1", "I2-R2"]
    # right on IP: Ethernet's header and IPv4's
    assert result.bytes == sum(14 + 20 + len(packet.data) for packet in packets)
    assert result.exchanges[0].request.transport == result.exchanges[0].request.marker == 0
    # 10 ms from each packet to the next, 4 of them on the path where the responder has the turn
    assert result.computation_ns("initiator") == 10 * MS
    assert result.computation_ns("responder") == 12 * MS
    # an I2 longer than the link's packets becomes IP fragments
    laid = packetize_over_udp(result.exchanges[1].request, result, LinkModel(1, mtu=300), None)
    assert sum(len(frame) for frame in laid.parts) == -(-len(packets[2].data) // 280)


@pytest.mark.parametrize(
    ("name", "outcome"),
    # refused with NO_PROPOSAL_CHOSEN; IP fragments that never arrived
    [("no-proposal", "failed"), ("fragments-dropped_fragment-size-0", "unanswered")],
)
def test_incomplete_handshakes_are_rejected(name, outcome):
    name = f"lab/{name}.pcapng"
    with pytest.raises(FlowError, match=f"no complete and successful handshake among 1: 1 {outcome}$"):
        flow(name)
    with pytest.raises(FlowError, match="no handshake is complete"):
        flow(name, 1)


def test_unknown_handshakes_are_rejected():
    with pytest.raises(FlowError, match=r"handshake 99 is not in the capture; complete handshakes: 1, 2, .*\.\.\."):
        flow("loss20-classic.pcap", 99)
    with pytest.raises(FlowError, match=": the capture has none"):
        extract_flow(capture("psk-classic.pcap"), "another.pcap")


@pytest.mark.parametrize("ticks", [2**63 - 1, 0])
def test_impossible_times_are_a_reason_not_to_predict(tmp_path, ticks):
    """292 years after 1970, as a damaged packet block has it, or 1970 itself; or the flow is right."""
    with (CAPTURES / "psk-classic.pcap").open("rb") as file:
        packets = [Packet(round(time * 10**6) * 1000, data) for time, data in dpkt.pcap.Reader(file)]
    for place, packet in enumerate(packets):
        moved = [*packets[:place], replace(packet, time_ns=ticks), *packets[place + 1 :]]
        path = tmp_path / "moved.pcapng"
        path.write_bytes(pcapng(moved))
        try:
            found = extract_flow(ikeanalyze.read(path), str(path))
        except FlowError:
            continue
        assert len(found.exchanges) == 2
