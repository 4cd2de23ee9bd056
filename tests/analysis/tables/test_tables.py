"""The tables join, and say null for what is not known."""

import polars as pl

import ikeanalyze
from tests.analysis.analyse_captures import Handshake, analyse, analyse_files, at, obey, rows
from tests.craft import MS, Trace, ipv4
from tests.craft import eap as eap_
from tests.craft import radius as radius_
from tests.craft.link import ethernet
from tests.craft.transport import udp_packet


def setup(seed=1, **where):
    trace = Trace()
    trace.play(Handshake(seed, **where).setup())
    return trace


def test_frames_say_what_crossed_the_wire():
    handshake = Handshake(1)
    messages = handshake.setup(auth=(2, 1))
    trace = Trace()
    trace.play(messages)
    frames = analyse(trace).frames
    assert rows(frames, "number", "message", "handshake", "fragment", "fragments", "encapsulation") == [
        (1, 0, 1, None, None, "UDP 500"),
        (2, 1, 1, None, None, "UDP 500"),
        (3, 2, 1, 1, 2, "UDP 4500"),
        (4, 2, 1, 2, 2, "UDP 4500"),
        (5, 3, 1, None, None, "UDP 4500"),
    ]
    first = frames.row(0, named=True)
    assert (first["source"], first["source_port"], first["destination"]) == ("192.0.2.1", 500, "192.0.2.2")
    assert first["time_ns"] == at(0)
    assert first["spi_i"] == int.from_bytes(handshake.spi_i)
    assert (first["spi_r"], first["exchange_type"], first["flags"], first["message_id"]) == (0, 34, 8, 0)
    assert first["ike_bytes"] == len(messages[0].datagrams[0])
    assert first["bytes"] == first["captured"] == 42 + first["ike_bytes"]
    assert (first["ttl"], first["ip_fragment"], first["capture_duplicate"]) == (64, False, False)


def test_what_the_snapshot_length_left():
    trace = setup()
    frames = analyse(trace.pcap(snaplen=100)).frames
    assert frames["captured"].to_list() == [100] * 4
    assert frames["bytes"].to_list() == [len(packet.data) for packet in trace.packets]


def test_radius_and_hip_have_no_spis():
    trace = setup()
    rng = Handshake(9).rng
    request = radius_.access_request(5, eap_.eap(2, 0, eap_.IDENTITY, b"x"), rng)
    trace.send(10_000 * MS, request, sport=40000, dport=1812)
    # a HIP base packet, I1: 40 bytes
    trace.add(10_001 * MS, ethernet(ipv4(bytes([59, 4, 1, 0x21]) + bytes(36), protocol=139)))
    analysis = analyse(trace)
    columns = ("protocol", "spi_i", "next_payload", "message_id", "message", "handshake", "source_port")
    assert rows(analysis.frames, *columns)[4:] == [
        ("RADIUS", None, None, 5, 4, None, 40000),
        ("HIP", None, None, None, 5, 2, None),
    ]
    assert analysis.captures[0].accounting["hip"] == 1
    assert analysis.frames["encapsulation"].to_list()[-1] == "IP"
    assert len(analysis.messages) == 6
    names = ("protocol", "spi_i", "spi_r", "initiator_port", "responder_port")
    assert rows(analysis.handshakes, *names)[1] == ("HIP", None, None, None, None)


def test_tables_of_several_captures_join(tmp_path):
    analysis = obey(analyse_files(tmp_path, setup(1), setup(2), setup(3)))
    joined = analysis.frames.join(analysis.messages, on="message", suffix="_of_message")
    assert len(joined) == len(analysis.frames) == 12
    assert (joined["handshake"] == joined["handshake_of_message"]).all()
    assert (joined["capture"].cast(pl.String) == joined["capture_of_message"].cast(pl.String)).all()
    joined = analysis.exchanges.join(analysis.handshakes, on="handshake")
    assert joined["capture"].n_unique() == 3
    assert analysis.handshakes["handshake"].to_list() == [1, 2, 3]


def test_the_same_capture_twice_is_counted_twice(tmp_path):
    path = setup().write(tmp_path / "one.pcap")
    analysis = obey(ikeanalyze.read([path, path]))
    assert analysis.handshakes["handshake"].to_list() == [1, 2]


def test_unknown_is_null():
    trace = Trace()
    handshake = Handshake(1)
    handshake.init()
    trace.message(0, handshake.auth()[0])
    row = analyse(trace).handshakes.row(0, named=True)
    for column in (
        "nat", "end_ns", "reason", "encryption", "prf", "integrity", "key_exchange", "nas_address",
        "aaa_address", "aaa_request_messages", "aaa_response_bytes", "setup_ns", "network_ns", "initiator_ns",
        "responder_ns",
        "aaa_ns", "retransmission_wait_ns", "path_rtt_ns", "path_rtt_source",
    ):  # fmt: skip
        assert row[column] is None, column
    assert row["one_sided"] == "initiator"
    assert (row["offered"], row["extra_round_trips"], row["additional_key_exchanges"]) == ([], [], [])
    assert (row["responder_messages"], row["blowup"], row["vantage"]) == (0, 1.0, "unknown")


def test_phases_stand_in_order_of_time():
    trace = Trace()
    trace.play(Handshake(1).setup(before="COOKIE", intermediate=[(1, 1), (2, 2)]))
    trace.play(Handshake(2, initiator="192.0.2.5").setup(), at=MS)
    trace.message(500 * MS, Handshake(3, initiator="192.0.2.6").init()[0])
    phases = analyse(trace).handshakes["phases"].to_list()
    assert [[phase["type"] for phase in item] for item in phases] == [
        ["IKE_SA_INIT", "IKE_INTERMEDIATE", "IKE_AUTH"],
        ["IKE_SA_INIT", "IKE_AUTH"],
        ["IKE_SA_INIT"],
    ]
    assert [phase["messages"] for phase in phases[0]] == [4, 4, 2]


def test_other_packets_are_counted_and_not_kept():
    trace = setup()
    trace.ip(0, udp_packet(b"question", 5353, 53))
    trace.ip(1, udp_packet(b"\xff", 4500, 4500))
    trace.ip(2, udp_packet(b"\x01\x02\x03\x04" + bytes(40), 4500, 4500))
    analysis = analyse(trace)
    accounting = analysis.captures[0].accounting
    assert (accounting["other"], accounting["nat_keepalive"], accounting["esp"], accounting["ike"]) == (
        1,
        1,
        1,
        4,
    )
    assert len(analysis.frames) == 4
