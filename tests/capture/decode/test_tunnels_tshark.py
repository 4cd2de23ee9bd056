"""tshark reads the same IKE messages in the encapsulations that it knows."""

from dataclasses import replace

import pytest

from ikeanalyze.capture.frames import read_frames
from tests.analysis.wrapped_captures import read_packets, wrap_packets
from tests.capture.laws import rows
from tests.craft import SECOND
from tests.craft.pcapng_file import Interface, pcapng
from tests.craft.tunnel import ALL
from tests.paths import CAPTURES, LAB_CAPTURES

#: What tshark reads only with other preferences (L2TPv3, NFLOG, VXLAN on its old port), or takes for something else.
NEEDS_PREFERENCES = {
    "l2tpv3", "l2tpv3, cookie", "l2tpv3 over udp", "nflog, big-endian", "pseudowire", "vxlan, old port",
}  # fmt: skip
#: What tshark does not read at all; tcpdump does (test_link.py).
UNKNOWN = {"dsa", "edsa", "broadcom tag", "broadcom tag in front"}
RECORDED = (CAPTURES / "psk-classic.pcap", CAPTURES / "pq-mlkem768-psk.pcap", LAB_CAPTURES / "ipv6.pcapng")


NAMES = [name for name in ALL if name not in NEEDS_PREFERENCES | UNKNOWN]
HOUR = 3600 * SECOND


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    """The recorded packets in each encapsulation, on an interface of its own, an hour later than in the one before."""
    packets = [packet for path in RECORDED for packet in read_packets(path)]
    wrapped = [
        replace(packet, time_ns=packet.time_ns + number * HOUR, interface=number)
        for number, name in enumerate(NAMES)
        for packet in wrap_packets(packets, ALL[name])
    ]
    path = tmp_path_factory.mktemp("wrapped") / "wrapped.pcapng"
    path.write_bytes(pcapng(wrapped, interfaces=[Interface(ALL[name].linktype) for name in NAMES]))
    return path


def by_encapsulation(lines):
    """Lines that begin with the number of the interface."""
    result = {name: [] for name in NAMES}
    for interface, *values in lines:
        result[NAMES[int(interface)]].append(values)
    return result


def test_tshark_reads_the_same_messages(tshark, capture):
    fields = ("frame.interface_id", "frame.number", "isakmp.ispi", "isakmp.rspi", "isakmp.messageid", "frame.len")
    done = tshark.run("-n", "-Yisakmp", "-Tfields", *(f"-e{field}" for field in fields), capture=capture)
    assert done.status == 0, done.stderr
    columns = ("interface", "number", "spi_i", "spi_r", "message_id", "bytes")
    ours = by_encapsulation(
        (interface, str(number), f"{spi_i:016x}", f"{spi_r:016x}", f"0x{message:08x}", str(size))
        for interface, number, spi_i, spi_r, message, size in rows(read_frames(str(capture)), *columns)
    )
    assert {name: len(lines) for name, lines in ours.items()} == dict.fromkeys(NAMES, 17)
    assert by_encapsulation(line.split("\t") for line in done.lines) == ours
