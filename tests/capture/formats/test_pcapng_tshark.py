"""Frame numbers of tshark are those of packets, up to the packet that a note names."""

import pytest

from ikeanalyze.capture.frames import read_frames
from tests.capture.savefiles import block, enhanced, interface, section
from tests.craft import Handshake, ip, transport

ENDS = ("192.0.2.1", "192.0.2.2")


@pytest.mark.parametrize("kind", [4, 5, 9, 10, 0xBAD, 0x40000BAD, 0x80000001])
def test_blocks_that_are_no_packets(tshark, kind, tmp_path):
    bodies = {
        4: bytes(4),  # no name
        5: bytes(12),
        9: b"MESSAGE=some\n__REALTIME_TIMESTAMP=1\n",
        10: b"KSLT\x04\0\0\0# no",
    }
    message = Handshake().init()[0].ike[0]
    packet = enhanced(ip.packet(transport.udp(message, 500, 500, *ENDS), *ENDS))
    other = block(kind, bodies.get(kind, (32473).to_bytes(4, "little") + b"some"))
    path = tmp_path / "capture.pcapng"
    path.write_bytes(section() + interface(101) + packet * 2 + other + packet * 2)
    done = tshark.run("-n", "-Yisakmp", "-Tfields", "-eframe.number", capture=path)
    assert done.status == 0, done.stderr
    capture = read_frames(str(path))
    noted = [number for number, text in capture.warnings if "Wireshark" in text]
    first = noted[0] if noted else 5
    numbers = [number + (number >= first) for number in capture.columns["number"].tolist()]
    assert numbers == [int(line) for line in done.lines]
