"""IKE in TCP, dissected by the plugin's `ikex/tcp.lua`, in every tshark."""

import gzip
import re
from pathlib import Path
from random import Random

import pytest

import ikeanalyze
from tests.craft import MS, Handshake, Trace, ike, link, transport
from tests.paths import ROOT

RECORDED = Path(__file__).parent / "recorded"
#: The module alone, without the rest of the plugin.
LOADER = 'package.path = "./?.lua;" .. package.path require("ikex.tcp").register()'
PREFIX, framed, framed_esp = transport.TCP_PREFIX, transport.tcp_framed, transport.tcp_framed_esp

HANDSHAKE = Handshake(Random(9329)).setup()
REQUEST, RESPONSE = (message.ike[0] for message in HANDSHAKE[:2])
ESP = transport.esp(0x8FEEEA65, 7, bytes(40))


def read(tshark, capture, *names, only="iketcp", options=()):
    """Values of the fields `names` in each frame that matches the filter `only`."""
    options = ["-n", "-Y", only, "-Tfields", *(word for name in names for word in ("-e", name)), *options]
    done = tshark.run(*options, capture=capture, lua=[LOADER], files={"ikex": ROOT / "dissectors" / "ikex"})
    assert done.status == 0, done.stderr
    assert "Lua" not in done.stderr
    return [line.split("\t") for line in done.lines]


def lua_errors(tshark, capture):
    """Lua errors in the packet details."""
    done = tshark.run("-n", "-V", capture=capture, lua=[LOADER], files={"ikex": ROOT / "dissectors" / "ikex"})
    assert done.status == 0, done.stderr
    return [line.strip() for line in done.lines if "Lua Error" in line]


def send(parts, *, port=40000, first=1, opened=True, backwards=False, trace=None):
    """A capture in which one side sends `parts`, one segment each; `opened`: with the TCP handshake."""
    trace, seq = trace or Trace(), first
    time = (port - 40000) * 1000 * MS
    hosts = ("192.0.2.1", "192.0.2.2")
    if opened:
        trace.ip(time, transport.tcp_packet(b"", port, 4500, 0, flags=transport.SYN))
        both = transport.SYN | transport.ACK
        trace.ip(time + 1, transport.tcp_packet(b"", 4500, port, 0, 1, both, *hosts[::-1]))
    ends, hosts = ((4500, port), hosts[::-1]) if backwards else ((port, 4500), hosts)
    for number, part in enumerate(parts):
        trace.ip(time + MS + number, transport.tcp_packet(part, *ends, seq, 1, transport.ACK, *hosts))
        seq += len(part)
    return trace


def in_streams(streams, **how):
    """A capture with several such streams, at ports 40000, 40001..."""
    trace = Trace()
    for number, parts in enumerate(streams):
        send(parts, port=40000 + number, trace=trace, **how)
    return trace


def test_lengths_are_those_of_the_daemons_log(tshark):
    log = gzip.decompress((RECORDED / "tcp-psk.r.log.gz").read_bytes()).decode()
    logged = re.findall(r"(?:sending|received) packet: .*\((\d+) bytes\)", log)
    shown = read(tshark, RECORDED / "tcp-psk.pcap", "isakmp.length", only="isakmp")
    assert [length for (length,) in shown] == logged


def test_esp_and_ike_and_the_prefix_in_a_recorded_stream(tshark):
    shown = read(tshark, RECORDED / "tcp-psk.pcap", "frame.number", "iketcp.prefix", "esp.spi", "isakmp.exchangetype")
    assert shown[:4] == [
        ["9", "IKETCP", "", ""],
        ["13", "", "", "34"],
        ["15", "", "", "34"],
        ["17", "", "", "35"],
    ]
    assert [kind for *_, kind in shown if kind][4:] == ["36", "36", "37", "37", "37", "37"]
    # from the lengths in the bytes of the segments, without the plugin; no segment was retransmitted
    expected = []
    for port in ("tcp.srcport == 4500", "tcp.dstport == 4500"):
        options = ("-n", "-Y", f"tcp.len && {port}", "-Tfields", "-e", "tcp.payload")
        stream = bytes.fromhex("".join(tshark.run(*options, capture=RECORDED / "tcp-psk.pcap").lines))
        stream = stream.removeprefix(PREFIX)
        while stream:
            size = int.from_bytes(stream[:2])
            expected.append("0x" + stream[2:6].hex())
            stream = stream[size:]
    spis = [spi for _, _, spis, _ in shown for spi in spis.split(",") if spi]
    assert sorted(spis) == sorted(spi for spi in expected if spi != "0x00000000")
    assert len(spis) == 21


@pytest.mark.parametrize("name", ["tcp-psk", "tcp-rsa-loss20"])
def test_messages_are_those_of_the_report(tshark, name):
    capture = RECORDED / f"{name}.pcap"
    messages = ikeanalyze.read([str(capture)]).messages
    shown = read(tshark, capture, "isakmp.messageid", only="isakmp")
    numbers = [int(number, 0) for (numbers,) in shown for number in numbers.split(",")]
    assert numbers == messages["message_id"].to_list()
    assert read(tshark, capture, "frame.number", only="iketcp.lost || iketcp.unknown || iketcp.incomplete") == []


def test_a_stream_in_segments_of_any_size_has_the_same_messages(tshark):
    stream = PREFIX + framed(REQUEST) + framed_esp(ESP) + b"\0\x03\xff" + framed(REQUEST)
    sizes = (1, 5, 7, 100, 10_000)
    capture = in_streams([[stream[at : at + size] for at in range(0, len(stream), size)] for size in sizes]).pcap()
    names = ("tcp.srcport", "iketcp.prefix", "isakmp.length", "esp.spi", "iketcp.keepalive")
    shown = read(tshark, capture, *names, "iketcp.lost", "iketcp.incomplete", "iketcp.unknown", only="iketcp")
    for number in range(len(sizes)):
        frames = [values for port, *values in shown if port == str(40000 + number)]
        by_stream = [",".join(filter(None, column)) for column in zip(*frames, strict=True)]
        assert by_stream == ["IKETCP", f"{len(REQUEST)},{len(REQUEST)}", "0x8feeea65", "ff", "", "", ""]


def test_the_first_message_of_the_responder_may_begin_with_a_segment_of_any_size(tshark):
    """No prefix precedes it, so its header shows where it begins (RFC 9329, section 3)."""
    stream, sizes = framed(RESPONSE) + framed_esp(ESP), (1, 2, 3, 6, 7, 10, 33, 34)
    capture = in_streams([[stream[:size], stream[size:]] for size in sizes], backwards=True).pcap()
    shown = read(tshark, capture, "tcp.dstport", "isakmp.length", "esp.spi", only="isakmp || esp")
    assert shown == [[str(40000 + number), str(len(RESPONSE)), "0x8feeea65"] for number in range(len(sizes))]


def test_short_segments_before_a_message_that_began_before_the_capture_hide_nothing(tshark):
    rest = framed(RESPONSE)[-40:]
    capture = in_streams([[rest[:size], framed(REQUEST)] for size in (1, 2, 5, 12)], opened=False).pcap()
    shown = read(tshark, capture, "tcp.srcport", "isakmp.length", only="isakmp")
    assert shown == [[str(40000 + number), str(len(REQUEST))] for number in range(4)]


def test_several_messages_in_a_segment_share_the_info_column(tshark):
    capture = send([PREFIX + framed(REQUEST) + framed_esp(ESP)]).pcap()
    done = tshark.run("-n", capture=capture, lua=[LOADER], files={"ikex": ROOT / "dissectors" / "ikex"})
    assert re.search(r"Stream prefix, IKE_SA_INIT MID=00 Initiator Request.*, ESP \(SPI=0x8feeea65\)", done.lines[2])


def test_the_other_direction_has_no_prefix(tshark):
    capture = send([framed(RESPONSE), framed_esp(ESP)], backwards=True).pcap()
    assert read(tshark, capture, "isakmp.flag_r", "esp.spi", only="isakmp || esp") in (
        [["1", ""], ["", "0x8feeea65"]],
        [["True", ""], ["", "0x8feeea65"]],
    )


def test_dissection_starts_at_the_first_complete_ike_header(tshark):
    stream = framed_esp(ESP * 9) + framed(REQUEST) + framed_esp(ESP)
    capture = send([stream[100:110], stream[110:]], first=77, opened=False).pcap()
    shown = read(tshark, capture, "iketcp.unknown", "isakmp.messageid", "esp.spi")
    # the start of messages is unknown in the first segment; the first complete IKE header shows it
    assert [[bool(unknown), ids, spi] for unknown, ids, spi in shown] == [
        [True, "", ""],
        [True, "0x00000000", "0x8feeea65"],
    ]


MALFORMED = [
    (b"\0\0", "lost"),
    (b"\0\x01\x05", "lost"),
    (b"\xff\xff" + framed(REQUEST)[2:], "lost"),
    (b"\0\x04ab", "short"),
    (b"\0\x06\0\0\0\0", "short"),
    (framed_esp(b"\x01\x02\x03\x04\x05"), "short"),
    (framed(REQUEST[:40]), "length.disagrees"),
    (framed(REQUEST[:9]), "length.disagrees"),
    (framed(REQUEST + b"more"), "length.disagrees"),
    (framed(REQUEST), ""),
]


def test_malformed_messages_are_reported(tshark):
    capture = in_streams([[PREFIX + framed(REQUEST), data] for data, _ in MALFORMED]).pcap()
    findings = ("lost", "short", "length.disagrees")
    shown = read(tshark, capture, "tcp.srcport", "tcp.seq", *(f"iketcp.{name}" for name in findings))
    by_stream = {(port, seq != "1"): values for port, seq, *values in shown}
    for number, (_, finding) in enumerate(MALFORMED):
        port = str(40000 + number)
        assert [name for name, value in zip(findings, by_stream[port, True], strict=True) if value] == finding.split()
        assert by_stream[port, False] == ["", "", ""]
    assert lua_errors(tshark, capture) == []


def test_dissection_continues_after_invalid_lengths(tshark):
    streams = [
        # after an invalid length, the next IKE message is by_stream
        [PREFIX + framed(REQUEST), b"\0\x01 nonsense", framed(REQUEST)],
        # an empty message is no error
        [PREFIX + b"\0\x02" + framed(REQUEST)],
    ]
    again = in_streams(streams)
    again.repeat(send([PREFIX + framed(REQUEST)], port=40002, trace=again).packets[-1:], 300 * MS)
    shown = read(tshark, again.pcap(), "tcp.srcport", "iketcp.length", only="isakmp")
    size = str(len(REQUEST) + 6)
    assert shown == [["40000", size], ["40000", size], ["40001", f"2,{size}"], ["40002", size]]


def test_messages_truncated_by_the_snaplen_are_reported(tshark):
    capture = send([PREFIX + framed(REQUEST)]).pcap(snaplen=200)
    assert read(tshark, capture, "iketcp.prefix", "frame.number", only="iketcp.incomplete") == [["IKETCP", "3"]]


@pytest.mark.parametrize(("ports", "frames"), [("443", "1"), ("443,4500-4501", "12"), ("", "")])
def test_the_ports_are_a_preference(tshark, ports, frames):
    trace = Trace()
    trace.ip(0, transport.tcp_packet(PREFIX + framed(REQUEST), 40000, 443, 1))
    trace.ip(1, transport.tcp_packet(PREFIX + framed(REQUEST), 40000, 4500, 1))
    shown = read(tshark, trace.pcap(), "frame.number", only="isakmp", options=("-o", f"iketcp.ports:{ports}"))
    assert [number for (number,) in shown] == list(frames)


def test_random_streams_cause_no_lua_error(tshark):
    rng = Random(1)
    trace = Trace()
    for stream in range(120):
        seq = 1
        pieces = [
            PREFIX,
            framed(REQUEST),
            framed_esp(ESP),
            framed(ike.message(bytes(8), bytes(8), 34, 8, 0, [])),
        ]
        for _ in range(rng.randrange(1, 5)):
            data = bytearray(b"".join(rng.choices(pieces, k=3)))
            for _ in range(rng.randrange(0, 6)):
                data[rng.randrange(len(data))] = rng.choice((0, 0, 1, 2, 255, rng.randrange(256)))
            data = data[: rng.randrange(1, len(data) + 1)]
            packet = transport.tcp_packet(bytes(data), 20_000 + stream, 4500, seq)
            trace.ip(stream * MS + seq, packet)
            seq += len(data) + rng.choice((0, 0, 0, 3))
    capture = trace.pcap()
    assert lua_errors(tshark, capture) == []
    assert len(read(tshark, capture, "frame.number", only="isakmp")) > 50


def test_the_plugin_finds_handshakes_in_tcp_streams(tshark):
    """The main script registers the dissector, and numbers the handshakes in the streams."""
    columns = [word for name in ("handshake", "exchange", "kind") for word in ("-e", f"ikex.{name}")]
    options = ("-n", "-Y", "isakmp", "-Tfields", *columns)
    done = tshark.run(*options, capture=RECORDED / "tcp-psk.pcap", plugins=ROOT / "dissectors")
    assert (done.status, done.stderr) == (0, "")
    exchanges = [34, 35, 36, 37, 37]  # IKE_SA_INIT, IKE_AUTH, CREATE_CHILD_SA, twice INFORMATIONAL
    assert done.lines == [f"1\t{number}\t{kind}" for number in exchanges for kind in ("request", "response")]


@pytest.mark.parametrize("port", [443, 4500])
def test_the_plugin_counts_all_segments_of_messages_on_each_tcp_port(tshark, port):
    trace, stream, seq = Trace(), PREFIX + framed(REQUEST), 1
    for number, part in enumerate([stream[:50], stream[50:200], stream[200:]]):
        trace.ip(number * MS, transport.tcp_packet(part, 40000, port, seq))
        seq += len(part)
    size = sum(len(packet.data) for packet in trace.packets)
    options = ("-n", "-o", f"iketcp.ports:{port}")
    statistics = ("-q", "-z", "ikex,handshakes")
    done = tshark.run(*options, *statistics, capture=trace.pcap(), plugins=ROOT / "dissectors")
    [line] = [line.split() for line in done.lines if line.startswith("  1")]
    assert line[5:8] == ["1", "3", str(size)]
    shown = ("-2", "-Y", "ikex", "-Tfields", "-e", "frame.number", "-e", "ikex.exchange", "-e", "ikex.part_of")
    done = tshark.run(*options, *shown, capture=trace.pcap(), plugins=ROOT / "dissectors")
    assert done.lines == ["1\t\t3", "2\t\t3", "3\t34\t"]


def test_segments_out_of_order_and_again_count_for_their_message(tshark):
    stream, trace = PREFIX + framed(REQUEST), Trace()
    parts = [(at, stream[at : at + 60]) for at in range(0, len(stream), 60)]
    assert len(parts) >= 4
    order = [0, *range(len(parts) - 1, 1, -1), len(parts) - 1, 1]  # the last one twice, the second one at the end
    for number, index in enumerate(order):
        at, part = parts[index]
        trace.ip(2 * number * MS, transport.tcp_packet(part, 40000, 4500, 1 + at))
    size = sum(len(packet.data) for packet in trace.packets)
    for preference in ("TRUE", "FALSE"):
        options = ("-n", "-o", f"tcp.reassemble_out_of_order:{preference}", "-q", "-z", "ikex,handshakes")
        done = tshark.run(*options, capture=trace.pcap(), plugins=ROOT / "dissectors")
        [line] = [line.split() for line in done.lines if line.startswith("  1")]
        assert line[5:8] == ["1", str(len(order)), str(size)]


def test_queued_segments_of_esp_take_little_memory(tshark):
    """70 MB of ESP in TCP; messages of IKE are a small part of what VPN gateways send in a connection."""
    esp = link.ethernet(transport.tcp_packet(framed_esp(transport.esp(0x1000, 1, bytes(1390))), 40000, 4500, 1))
    request = link.ethernet(transport.tcp_packet(framed(REQUEST), 40000, 4500, 1))
    files = {"ikex": ROOT / "dissectors" / "ikex", "esp": esp, "ike": request}
    script = Path(__file__).with_name("tcp_queue.lua")
    done = tshark.run("-q", capture=RECORDED / "tcp-psk.pcap", lua=[script], files=files)
    assert done.stderr == ""
    messages, megabytes = map(int, done.stdout.split())
    assert messages == 1
    assert megabytes < 45
