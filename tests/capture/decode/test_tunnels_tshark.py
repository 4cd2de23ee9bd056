"""tshark reads the same IKE messages in the encapsulations that it knows."""

import pytest

from ikeanalyze.capture.frames import read_frames
from tests.analysis.wrapped_captures import read_packets, wrap_packets
from tests.capture.laws import rows
from tests.craft import pcap
from tests.craft.tunnel import ALL
from tests.paths import CAPTURES, LAB_CAPTURES

#: What tshark reads only with other preferences (L2TPv3, NFLOG, VXLAN on its old port), or takes for something else.
NEEDS_PREFERENCES = {
    "l2tpv3", "l2tpv3, cookie", "l2tpv3 over udp", "nflog, big-endian", "pseudowire", "vxlan, old port",
}  # fmt: skip
RECORDED = (CAPTURES / "psk-classic.pcap", CAPTURES / "pq-mlkem768-psk.pcap", LAB_CAPTURES / "ipv6.pcapng")


@pytest.mark.tshark
@pytest.mark.parametrize("name", [name for name in ALL if name not in NEEDS_PREFERENCES])
def test_tshark_reads_the_same_messages(tshark, name, tmp_path):
    packets = [packet for path in RECORDED for packet in read_packets(path)]
    path = tmp_path / "wrapped.pcap"
    path.write_bytes(pcap(wrap_packets(packets, ALL[name]), linktype=ALL[name].linktype))
    fields = ("frame.number", "isakmp.ispi", "isakmp.rspi", "isakmp.messageid", "frame.len")
    done = tshark.run("-n", "-Yisakmp", "-Tfields", *(f"-e{field}" for field in fields), capture=path)
    assert done.status == 0, done.stderr
    ours = [
        f"{number}\t{spi_i:016x}\t{spi_r:016x}\t0x{message:08x}\t{size}"
        for number, spi_i, spi_r, message, size in rows(
            read_frames(str(path)), "number", "spi_i", "spi_r", "message_id", "bytes"
        )
    ]
    assert len(ours) == 17
    assert done.lines == ours
