import io
import subprocess
from ipaddress import ip_address

import pytest

import ikeanalyze
from ikeanalyze.capture.write.frames import UdpEndpoint, build_datagram_frame
from ikeanalyze.replay.session import capture_writer
from ikeanalyze.replay.session.capture_writer import CaptureWriter
from tests.replay.recorded_messages import hybrid

ENDS = [UdpEndpoint(ip_address(f"192.0.2.{number}").packed, 500) for number in (1, 2)]
AT = 1_700_000_000_123_456_789


def written(path):
    with open(path, "wb") as stream:
        one = CaptureWriter(stream)
        one.begin(name="replay", description="made by a test", comment="no more")
        for number, message in enumerate(hybrid().messages[:2]):
            ends = ENDS if message.from_initiator else ENDS[::-1]
            one.write_packet(AT + number, build_datagram_frame(*ends, message.data))
    return one


@pytest.mark.tshark
def test_tshark_reads_the_capture(tmp_path):
    written(tmp_path / "a.pcapng")
    command = ["tshark", "-n", "-r", str(tmp_path / "a.pcapng"), "-Tfields", "-e", "frame.time_epoch"]
    more = [
        "-e",
        "ip.src",
        "-e",
        "isakmp.exchangetype",
        "-e",
        "frame.interface_name",
        "-e",
        "frame.interface_description",
    ]
    lines = subprocess.run([*command, *more], capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines == [
        "1700000000.123456789\t192.0.2.1\t34\treplay\tmade by a test",
        "1700000000.123456790\t192.0.2.2\t34\treplay\tmade by a test",
    ]


def test_the_capture_can_be_analysed(tmp_path):
    written(tmp_path / "a.pcapng")
    result = ikeanalyze.read(tmp_path / "a.pcapng")
    assert result.exchanges["rtt_ns"].to_list() == [1]
    assert result.frames["bytes"].to_list() == [28 + len(message.data) for message in hybrid().messages[:2]]


def test_it_does_not_grow_without_end(monkeypatch):
    monkeypatch.setattr(capture_writer, "MAX_BYTES", 1000)
    stream = io.BytesIO()
    one = CaptureWriter(stream)
    one.begin(name="replay", description="", comment="")
    for _ in range(100):
        one.write_packet(AT, bytes(300))
    assert (one.packets, one.bytes, one.dropped) == (3, 900, 97)
    assert len(stream.getvalue()) < 1500


def test_a_disk_that_is_full_in_the_middle():
    """The packets that do not fit are counted, and no run hears of it before its end."""
    stream = open("/dev/full", "wb", buffering=1000)  # noqa: SIM115 - to close it fails as well
    one = CaptureWriter(stream)
    one.begin(name="replay", description="", comment="")
    one.check()
    for _ in range(10):
        one.write_packet(AT, bytes(300))
    assert 0 < one.packets < 5
    assert one.packets + one.dropped == 10
    with pytest.raises(OSError, match="No space left"):
        one.check()
    with pytest.raises(OSError, match="No space left"):
        stream.close()
