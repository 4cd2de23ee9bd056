"""ESP packets by their header, in whatever they come; what cannot be told is counted."""

import tempfile

import numpy as np
import pytest

from ikeanalyze.capture import esp as module
from ikeanalyze.capture.decode.ip import format_address_code
from ikeanalyze.capture.esp import LAYOUT, read_esp
from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.capture.frames import read_frames
from tests.craft import MS, Packet, ip, ip_fragments, ipv4, ipv6, link, pcap, tcp_packet, transport, udp_packet
from tests.craft.tunnel import macsec, over_udp, vxlan
from tests.paths import CAPTURES


def read(*frames, ports=(), snaplen=262144, gap=MS):
    packets = [Packet(10**18 + n * gap, data) for n, data in enumerate(frames)]
    blocks = []
    with tempfile.NamedTemporaryFile() as file:
        file.write(pcap(packets, snaplen=snaplen))
        file.flush()
        result = read_esp(file.name, blocks.append, ports)
        counted = read_frames(file.name, ports).accounting
    columns = {name: np.concatenate([block[name] for block in blocks] or [[]]).tolist() for name in LAYOUT}
    assert result.esp_packets == len(columns["spi"])
    return result, columns, counted


def esp(spi=0x1234, sequence=1, size=64):
    return transport.esp(spi, sequence, bytes(size - 8))


def test_esp_is_found_in_ip_and_udp():
    frames = [
        link.ethernet(ipv4(esp(1, 7, 100), protocol=ip.ESP)),
        link.ethernet(udp_packet(esp(2, 8, 60), 4500, 4500)),
        link.ethernet(udp_packet(esp(3, 9, 80), 4500, 4500, "2001:db8::1", "2001:db8::2")),
        link.ethernet(ipv6(esp(4, 10, 90), "2001:db8::1", "2001:db8::2", ip.ESP)),
        link.ethernet(udp_packet(esp(5, 11, 64), 9999, 4501)),
    ]
    result, columns, counted = read(*frames, ports=[4501])
    assert columns["spi"] == [1, 2, 3, 4, 5]
    assert columns["sequence"] == [7, 8, 9, 10, 11]
    assert columns["esp_bytes"] == [100, 60, 80, 90, 64]
    assert columns["bytes"] == [len(frame) for frame in frames]
    assert columns["encapsulation"] == [4, 1, 1, 4, 3]
    assert columns["time_ns"] == [10**18 + n * MS for n in range(5)]
    sources = [format_address_code(code, result.addresses) for code in columns["source"]]
    assert sources == ["192.0.2.1", "192.0.2.1", "2001:db8::1", "2001:db8::1", "192.0.2.1"]
    assert counted["esp"] == 5


def test_esp_sas_of_different_tunnels_are_kept_apart():
    """The same SPI between the same addresses is of another SA in each tunnel."""
    packet = ipv4(esp(1, 7, 100), protocol=ip.ESP)
    frames = [
        link.ethernet(packet),
        over_udp(vxlan(link.ethernet(packet), 1), 4789),
        over_udp(vxlan(link.ethernet(packet), 2), 4789),
        link.ethernet(ipv4(transport.ah(esp(1, 7, 100), ip.ESP, 9, 9), protocol=ip.AH)),
        macsec(link.ethernet(packet), control=0x2C),
    ]
    found, columns, counted = read(*frames)
    assert columns["spi"] == [1] * 4
    assert columns["esp_bytes"] == [100] * 4
    assert columns["bytes"] == [len(frame) for frame in frames[:4]]
    assert len(set(columns["source"])) == 4
    assert {format_address_code(code, found.addresses) for code in columns["source"]} == {"192.0.2.1"}
    assert counted["esp"] == 4
    assert found.warnings == ["a packet is inside encrypted MACsec, which cannot be read: ignored"]


def test_other_packets_are_not_esp():
    frames = [
        link.ethernet(udp_packet(transport.NON_ESP_MARKER + bytes(40), 4500, 4500)),
        link.ethernet(udp_packet(b"\xff", 4500, 4500)),
        link.ethernet(udp_packet(esp(), 53, 53)),
        link.ethernet(ipv4(bytes(20), protocol=ip.ICMP)),
    ]
    result, columns, _ = read(*frames)
    assert (result.packets, columns["spi"], result.cut) == (4, [], 0)


def test_padding_of_ethernet_does_not_count():
    _, columns, _ = read(link.padded(ipv4(esp(size=16), protocol=ip.ESP)))
    assert (columns["bytes"], columns["esp_bytes"]) == ([60], [16])


def test_truncated_packets_have_the_original_size():
    frames = [link.ethernet(ipv4(esp(size=400), protocol=ip.ESP))]
    _, columns, _ = read(*frames, snaplen=42)
    assert columns["esp_bytes"] == [400]
    result, columns, counted = read(*frames, snaplen=41)
    assert (result.cut, columns["spi"], counted["esp"]) == (1, [], 1)


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("in_udp", [False, True])
def test_ip_fragments_are_one_packet(version, in_udp):
    addresses = {4: ("192.0.2.1", "192.0.2.2"), 6: ("2001:db8::1", "2001:db8::2")}[version]
    if in_udp:
        packet = udp_packet(esp(5, 6, 2000), 4500, 4500, *addresses)
    else:
        packet = ip.packet(esp(5, 6, 2000), *addresses, protocol=ip.ESP)
    frames = [link.ethernet(part) for part in ip_fragments(packet, 1400, 77)]
    assert len(frames) == 2
    for order in (frames, frames[::-1]):
        result, columns, counted = read(*order)
        assert (columns["spi"], columns["sequence"], columns["frames"]) == ([5], [6], [2])
        assert (columns["esp_bytes"], columns["bytes"]) == ([2000], [sum(map(len, frames))])
        assert counted["esp"] == 2
    result, columns, _ = read(frames[0])
    assert (columns["spi"], columns["esp_bytes"], columns["bytes"]) == ([5], [0], [len(frames[0])])
    result, columns, _ = read(frames[1])
    assert (columns["spi"], result.lost_fragments) == ([], 0 if in_udp else 1)


@pytest.mark.parametrize(
    ("order", "gap", "frames", "lost"),
    [
        ((0, 0, 1), 0, 2, 0),  # the capture saw it twice
        ((0, 1, 1), 0, 2, 0),
        ((0, 0, 1), 5 * MS, 3, 0),  # a link doubled it
        ((0, 0, 1, 1), 5 * MS, 3, 1),
    ],
)
def test_ip_fragments_that_come_twice(order, gap, frames, lost):
    packet = ipv4(esp(5, 6, 2000), protocol=ip.ESP)
    parts = [link.ethernet(part) for part in ip_fragments(packet, 1400, 77)]
    result, columns, counted = read(*(parts[place] for place in order), gap=gap)
    assert (columns["frames"], result.lost_fragments) == ([frames], lost)
    whole = sum(map(len, parts))
    assert columns["bytes"] == [whole + (len(parts[0]) if gap else 0)]
    assert counted["esp"] == len(order)


@pytest.mark.parametrize(("port", "ports", "counted"), [(4500, (), 1), (5555, (5555,), 1), (5555, (), 0)])
def test_tcp_on_the_ports_of_ike_is_counted_and_not_followed(port, ports, counted):
    segment = tcp_packet((66).to_bytes(2, "big") + esp(), 40000, port, 1)
    result, columns, _ = read(link.ethernet(segment), ports=ports)
    assert (result.in_tcp, columns["spi"]) == (counted, [])


def test_rows_are_passed_on_in_blocks(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_PACKETS", 2)
    frames = [link.ethernet(ipv4(esp(n, 1), protocol=ip.ESP)) for n in range(1, 6)]
    assert read(*frames)[1]["spi"] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("**/*.pcap*")), ids=lambda path: path.name)
def test_every_esp_packet_of_recorded_captures(path):
    blocks = []
    result = read_esp(str(path), blocks.append)
    frames = sum(int(block["frames"].sum()) for block in blocks)
    whole = read_frames(str(path))
    assert frames + result.cut + result.lost_fragments == whole.accounting["esp"]
    assert sum(int(block["bytes"].sum()) for block in blocks) == whole.accounting_bytes["esp"]
    assert (result.packets, result.bytes) == (whole.packets, whole.bytes)
    assert (result.first_ns, result.last_ns) == (whole.first_ns, whole.last_ns)


def test_spis_and_sequence_numbers_are_those_of_tshark(tshark):
    path = CAPTURES / "lab" / "followup.pcapng"
    blocks = []
    read_esp(str(path), blocks.append)
    done = tshark.run("-n", "-Y", "esp", "-T", "fields", "-e", "esp.spi", "-e", "esp.sequence", capture=path)
    reported = [(int(line.split()[0], 16), int(line.split()[1])) for line in done.lines]
    pairs = [pair for block in blocks for pair in zip(block["spi"].tolist(), block["sequence"].tolist(), strict=True)]
    assert pairs == reported != []


def test_unknown_link_types_are_a_warning(tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap([Packet(10**18, bytes(60))] * 2, linktype=147))
    result = read_esp(str(path), lambda block: None)
    assert result.warnings == ["link type LINKTYPE_USER0 is not decoded: its 2 packets are ignored"]
    assert (result.packets, result.esp_packets) == (2, 0)


def test_damage_and_what_is_no_capture(tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap([Packet(10**18, link.ethernet(ipv4(esp(), protocol=ip.ESP)))] * 2)[:-5])
    result = read_esp(str(path), lambda block: None)
    assert (result.packets, result.esp_packets) == (1, 1)
    assert "the file ends inside a packet" in result.warnings[0]
    path.write_text("no capture")
    with pytest.raises(CaptureError):
        read_esp(str(path), lambda block: None)


def test_behind_the_options_of_a_fragmented_packet():
    from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, fragment6
    from scapy.packet import Raw

    whole = IPv6(src="2001:db8::1", dst="2001:db8::2") / IPv6ExtHdrFragment(id=7)
    whole /= IPv6ExtHdrDestOpt(nh=ip.ESP) / Raw(esp(6, 12, 900))
    frames = [link.ethernet(bytes(item), 0x86DD) for item in fragment6(whole, 600)]
    _, columns, counted = read(*frames)
    assert len(frames) == 2
    assert (columns["spi"], columns["sequence"], columns["esp_bytes"]) == ([6], [12], [900])
    assert columns["frames"] == [2]
    assert counted["esp"] == 2
