"""Packets: tshark finds right checksums and nothing malformed; hostile packets are dropped or keep their size."""

import struct
import zlib
from random import Random

import dpkt
import pytest

from ikeanalyze.capture.formats.records import Interface as CapturedInterface
from ikeanalyze.sharing.anonymize.messages import MessageAnonymizer
from ikeanalyze.sharing.anonymize.packets import PacketAnonymizer
from ikeanalyze.sharing.anonymize.pseudonyms import Pseudonyms
from tests.analysis.wrapped_captures import write_wrapped
from tests.craft import Packet, link, pcapng
from tests.craft.tunnel import ALL
from tests.paths import CAPTURES, LAB_CAPTURES
from tests.sharing.anonymize.copies import KEY, find_keys, make_copy

CHECKED = (
    "-n", "-oip.check_checksum:TRUE", "-oudp.check_checksum:TRUE", "-otcp.check_checksum:TRUE",
    "-Tfields", "-eip.checksum.status", "-eudp.checksum.status", "-etcp.checksum.status",
)  # fmt: skip
BAD = ("-n", "-Y_ws.malformed || icmp.checksum.status == 0", "-oip.check_checksum:TRUE")


def anonymizer():
    pseudonyms = Pseudonyms(KEY)
    return PacketAnonymizer(pseudonyms, MessageAnonymizer(pseudonyms))


@pytest.mark.turns
@pytest.mark.parametrize(
    "name",
    [
        "psk-classic.pcap",
        "ip-fragments-loss10.pcap",
        "tcp-psk.pcap",
        "lab/eap-aka.pcapng",
        "lab/ipv6.pcapng",
        "lab/followup.pcapng",
    ],
)
def test_checksums_are_right(name, tmp_path, tshark):
    out = tmp_path / "out.pcapng"
    make_copy(CAPTURES / name, out, find_keys(CAPTURES / name))
    statuses = {
        status
        for line in tshark.run(*CHECKED, capture=out).lines
        for field in line.split("\t")
        for status in field.split(",")
    }
    original = tshark.run(*CHECKED, capture=CAPTURES / name).lines
    known = {status for line in original for field in line.split("\t") for status in field.split(",")}
    assert "0" not in statuses
    assert statuses <= known | {"1"}
    assert tshark.run(*BAD, capture=out).lines == tshark.run(*BAD, capture=CAPTURES / name).lines


@pytest.mark.turns
@pytest.mark.parametrize("name", ["gre, everything", "vxlan in gre in mpls", "geneve, options", "ip in ipv6", "gtp"])
def test_checksums_in_tunnels_are_right(name, tmp_path, tshark):
    wrapped = write_wrapped(tmp_path / "in.pcap", LAB_CAPTURES / "ipv6.pcapng", ALL[name])
    out = tmp_path / "out.pcapng"
    make_copy(wrapped, out)
    statuses = {
        status
        for line in tshark.run(*CHECKED, capture=out).lines
        for field in line.split("\t")
        for status in field.split(",")
    }
    assert "0" not in statuses
    assert "1" in statuses
    bad = ("-n", "-Y_ws.malformed || gre.checksum.status == 0")
    assert tshark.run(*bad, capture=out).lines == []


def read_frames(name):
    with (CAPTURES / name).open("rb") as file:
        return [bytes(data) for _, data in dpkt.pcap.UniversalReader(file)]


def test_a_truncated_datagram_has_no_checksum():
    frame = read_frames("psk-classic.pcap")[0]
    assert frame[40:42] != bytes(2)
    copy = anonymizer().anonymize(1, frame[:100], len(frame), CapturedInterface(1, None, 100))
    assert copy is not None
    assert (len(copy), copy[40:42]) == (100, bytes(2))


def test_a_frame_check_sequence_is_computed_again():
    frame = read_frames("psk-classic.pcap")[0]
    copy = anonymizer().anonymize(1, frame + b"\1\2\3\4", len(frame) + 4, CapturedInterface(1, None, 0, fcs_bytes=4))
    plain = anonymizer().anonymize(1, frame, len(frame), CapturedInterface(1, None, 0))
    assert copy is not None
    assert copy[:-4] == plain
    assert copy[-4:] == struct.pack("<I", zlib.crc32(copy[:-4]))


def test_icmp_errors_about_ike(tmp_path, tshark):
    """An ICMP error quotes the packet, whose addresses are mapped too."""
    inner = read_frames("psk-classic.pcap")[0][14 : 14 + 28 + 60]
    icmp = dpkt.icmp.ICMP(type=3, code=4, data=dpkt.icmp.ICMP.Unreach(mtu=1280, data=inner))
    packet = dpkt.ip.IP(src=b"\xc0\0\2\x63", dst=b"\xc0\0\2\1", p=1, data=icmp)
    packet.len = len(packet)
    path, out = tmp_path / "in.pcapng", tmp_path / "out.pcapng"
    path.write_bytes(pcapng([Packet(1, link.ethernet(bytes(packet)))]))
    assert make_copy(path, out).written == 1
    (line,) = tshark.run(
        "-n", "-Tfields", "-eip.src", "-eip.dst", "-eicmp.mtu", "-eicmp.checksum.status", capture=out
    ).lines
    sources, destinations, mtu, status = line.split("\t")
    outer, quoted = sources.split(","), destinations.split(",")
    assert (mtu, status) == ("1280", "1")
    assert outer[1] == quoted[0]  # the error goes to the sender of the quoted packet
    assert b"\xc0\0\2" not in out.read_bytes()


def test_hostile_packets_are_dropped_or_keep_their_size():
    random = Random(19)
    frames = [
        frame
        for name in ("psk-classic.pcap", "eap-md5-radius.pcapng", "lab/ipv6.pcapng")
        for frame in read_frames(name)
    ]
    packets = anonymizer()
    for number in range(3000):
        frame = bytearray(random.choice(frames))
        for _ in range(random.randrange(1, 6)):
            frame[random.randrange(min(len(frame), 120))] = random.randrange(256)
        del frame[random.randrange(1, len(frame) + 1) :]
        kind = random.choice([1, 1, 1, 101, 113, 276, 0, 9, 51])
        copy = packets.anonymize(
            number, bytes(frame), len(frame) + random.choice([0, 0, 50]), CapturedInterface(kind, None, 0)
        )
        assert copy is None or len(copy) == len(frame)
