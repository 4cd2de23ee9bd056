"""Recorded handshakes are the same inside of tunnels, except for the bytes that the tunnel adds to each frame."""

import dataclasses
import tempfile
from functools import cache
from itertools import chain
from pathlib import Path

import polars as pl
import pytest

from ikeanalyze.analysis.read import read_captures
from ikeanalyze.render.report.document import build_report
from tests.analysis.wrapped_captures import read_packets, wrap_packets, write_wrapped
from tests.craft import ip_fragments, link, pcap
from tests.craft.tunnel import (
    ALL,
    IP_IN_IP,
    MPLS,
    Encapsulation,
    gtp,
    label_stack,
    over_ip,
    over_udp,
    packet_of,
    vxlan,
)
from tests.paths import CAPTURES

LOSSY, LARGE = CAPTURES / "loss20-classic.pcap", CAPTURES / "ip-fragments-loss10.pcap"
RECORDED = [
    LOSSY,
    LARGE,
    CAPTURES / "ikev1-fragments-loss15.pcap",
    CAPTURES / "lab" / "ipv6.pcapng",
    CAPTURES / "lab" / "loss20.pcapng",
    CAPTURES / "lab" / "eap-aaa-loss.pcapng",
]


NOTHING = Encapsulation(lambda frame: frame)


@cache
def plain(path):
    """The IP packets of a capture without tunnel."""
    with tempfile.TemporaryDirectory() as folder:
        return read_captures([write_wrapped(Path(folder) / "plain.pcap", path, NOTHING)])


def plain_handshakes(path):
    return strip(build_report(plain(path))["handshakes"])


def report_of(*paths):
    """The handshakes of a report without what the encapsulation changes, and their tunnels."""
    handshakes = build_report(read_captures(list(paths)))["handshakes"]
    return strip(handshakes), [handshake["tunnel"] for handshake in handshakes]


CHANGED = {"capture", "bytes", "blowup", "tunnel"}


def strip(value):
    if isinstance(value, dict):
        return {key: strip(part) for key, part in value.items() if key not in CHANGED}
    return [strip(part) for part in value] if isinstance(value, list) else value


def name_of(name, *, six):
    """The tunnel that an encapsulation should have; IP in IP is named by both versions."""
    kinds = {"ip in ipv4": ("ipip", "6in4"), "ip in ipv6": ("4in6", "6in6")}
    tunnel = ALL[name].tunnel
    return f"{kinds[name][six]}:{tunnel}" if name in kinds else tunnel


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_handshakes_in_an_encapsulation_are_those_of_the_plain_capture(name, path, tmp_path):
    encapsulation = ALL[name]
    wrapped = read_captures([write_wrapped(tmp_path / "wrapped.pcap", path, encapsulation)])
    assert [warning.message for warning in wrapped.warnings] == [warning.message for warning in plain(path).warnings]
    handshakes = strip(build_report(wrapped)["handshakes"])
    expected = plain_handshakes(path)
    if name == "prism":
        # its 144 bytes are too many for guessing the authentication from the sizes of messages
        expected = [{**handshake, "auth": ours["auth"]} for handshake, ours in zip(expected, handshakes, strict=True)]
    assert handshakes == expected
    assert wrapped.captures[0].accounting == plain(path).captures[0].accounting
    tunnel = name_of(name, six="ipv6" in path.name)
    assert set(wrapped.handshakes["tunnel"]) == {tunnel}
    assert set(wrapped.frames["tunnel"].cast(pl.String)) == {tunnel}
    inner, outer = plain(path).frames, wrapped.frames
    assert outer["number"].to_list() == inner["number"].to_list()
    sizes = [len(encapsulation.wrap(packet.data)) for packet in read_packets(path)]
    assert outer["bytes"].to_list() == [sizes[number - 1] for number in inner["number"].to_list()]


def vxlan_of(vni):
    return Encapsulation(lambda frame: over_udp(vxlan(frame, vni), 4789))


def write_merged(path, packets, *encapsulations):
    """All packets in each of these encapsulations, at the same times."""
    merged = [packet for encapsulation in encapsulations for packet in wrap_packets(packets, encapsulation)]
    path.write_bytes(pcap(sorted(merged, key=lambda packet: packet.time_ns)))
    return path


def test_tenants_with_the_same_addresses_and_spis_stay_apart(tmp_path):
    packets = read_packets(LOSSY)
    both, tunnels = report_of(write_merged(tmp_path / "both.pcap", packets, vxlan_of(1), vxlan_of(2)))
    one = plain_handshakes(LOSSY)
    assert len(both) == 2 * len(one) == 50
    assert sorted(set(tunnels)) == ["vxlan:1", "vxlan:2"]
    for tenant in ("vxlan:1", "vxlan:2"):
        own = [{**handshake, "id": None} for handshake, tunnel in zip(both, tunnels, strict=True) if tunnel == tenant]
        assert own == [{**handshake, "id": None} for handshake in one]


def test_ip_fragments_of_tenants_stay_apart(tmp_path):
    packets = read_packets(LARGE)
    both, _ = report_of(write_merged(tmp_path / "both.pcap", packets, vxlan_of(1), vxlan_of(2)))
    one = plain_handshakes(LARGE)
    assert len(both) == 2 * len(one)
    assert [handshake["fragmentation"] for handshake in both[::2]] == [handshake["fragmentation"] for handshake in one]


def by_direction(wrap, forth, back):
    """Another identifier in the direction of the initiator, whose address is the lower one in these captures."""
    return Encapsulation(lambda frame: wrap(frame, forth if frame[26:30] < frame[30:34] else back))


def test_directions_with_different_identifiers_are_one_ike_sa(tmp_path):
    wraps = {
        "gtp:1, gtp:2": by_direction(lambda frame, number: over_udp(gtp(packet_of(frame), number), 2152), 1, 2),
        "mpls:100, mpls:200": by_direction(
            lambda frame, number: link.ethernet(label_stack(number) + packet_of(frame), MPLS), 100, 200
        ),
        # a router removes the label before the last hop
        "mpls:300": by_direction(
            lambda frame, number: link.ethernet(label_stack(number) + packet_of(frame), MPLS) if number else frame,
            300,
            0,
        ),
    }
    for tunnel, encapsulation in wraps.items():
        handshakes, tunnels = report_of(write_wrapped(tmp_path / "wrapped.pcap", LOSSY, encapsulation))
        assert handshakes == plain_handshakes(LOSSY)
        assert set(tunnels) == {tunnel}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [name for name in ALL if name != "prism"])
def test_an_ike_sa_that_moves_to_another_tunnel_is_one(name, tmp_path):
    """Its addresses change from IPv4 to IPv6 (RFC 4555), and so the name of IP in IP."""
    handshakes, tunnels = report_of(write_wrapped(tmp_path / "mobike.pcap", CAPTURES / "mobike.pcap", ALL[name]))
    assert handshakes == plain_handshakes(CAPTURES / "mobike.pcap")
    names = [name_of(name, six=six) for six in (False, True)]
    assert tunnels == [", ".join(names) if name in IP_IN_IP else names[0]]


def test_a_gateway_that_shows_packets_inside_and_outside_of_a_tunnel_doubles_nothing(tmp_path):
    path = write_merged(tmp_path / "any.pcap", read_packets(LOSSY), NOTHING, vxlan_of(1))
    result = read_captures([path])
    plain_result = plain(LOSSY)
    assert result.handshakes["initiator_bytes"].to_list() == plain_result.handshakes["initiator_bytes"].to_list()
    assert result.handshakes["retransmitted_messages"].sum() == plain_result.handshakes["retransmitted_messages"].sum()
    assert result.frames["capture_duplicate"].sum() == len(plain_result.frames)


def fragmented(frame):
    """The outer IP packets of a VXLAN frame, which is too large for its path."""
    return [link.ethernet(part) for part in ip_fragments(packet_of(over_udp(vxlan(frame), 4789)), 576, 99)]


def test_a_tunnel_in_ip_fragments(tmp_path):
    packets = read_packets(CAPTURES / "pq-mlkem768-psk.pcap")
    packets = [packet for packet in packets if packet.data[23] == 17]
    parts = [
        [
            dataclasses.replace(packet, data=part, time_ns=packet.time_ns + n)
            for n, part in enumerate(fragmented(packet.data))
        ]
        for packet in packets
    ]
    path = tmp_path / "fragments.pcap"
    path.write_bytes(pcap(chain.from_iterable(parts)))
    result = read_captures([path])
    assert [warning.message for warning in result.warnings] == []
    assert result.handshakes["outcome"].to_list() == ["completed"]
    assert result.frames["bytes"].to_list() == [len(part.data) for part in chain.from_iterable(parts)]
    assert set(result.frames["tunnel"]) == {"vxlan:42"}
    assert result.frames["ip_fragment"].sum() == sum(len(part) for part in parts if len(part) > 1)
    assert result.messages["bytes"].sum() == result.frames["bytes"].sum()


@pytest.mark.parametrize("depth", [2, 4, 7])
def test_tunnels_in_tunnels(depth, tmp_path):
    def wrap(frame):
        for number in range(depth, 0, -1):
            frame = over_udp(vxlan(frame, number), 4789)
        return frame

    handshakes, tunnels = report_of(write_wrapped(tmp_path / "nested.pcap", LOSSY, Encapsulation(wrap)))
    assert handshakes == plain_handshakes(LOSSY)
    assert set(tunnels) == {"/".join(f"vxlan:{number}" for number in range(1, depth + 1))}


def test_tunnels_in_too_many_tunnels_are_named(tmp_path):
    def wrap(frame):
        for _ in range(12):
            frame = over_ip(packet_of(frame), 4)
        return frame

    path = write_wrapped(tmp_path / "nested.pcap", LOSSY, Encapsulation(wrap))
    result = read_captures([path])
    assert result.captures[0].accounting["other"] == result.captures[0].packets == 244
    assert [warning.message for warning in result.warnings] == [
        "244 packets are inside more than 8 IP packets, which cannot be read: counted as other"
    ]


def test_captures_together_and_alone_have_the_same_tunnels(tmp_path):
    paths = [write_wrapped(tmp_path / f"{vni}.pcap", CAPTURES / "psk-classic.pcap", vxlan_of(vni)) for vni in (7, 8, 7)]
    assert read_captures(paths).handshakes["tunnel"].to_list() == ["vxlan:7", "vxlan:8", "vxlan:7"]
