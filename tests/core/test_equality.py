"""Every column of every table is the same with and without the core."""

import pytest

from fuzz.equality import compare_early_tables, compare_frames, compare_tables, without_core
from ikeanalyze.capture.decode import plain
from ikeanalyze.capture.frames import read_frames
from tests.core.equality import compare_generated
from tests.core.inputs import flood, recorded
from tests.craft import SECOND, Packet, ip, ipv4, ipv6, link, pcap
from tests.floods.generate import FLOODS


@pytest.mark.parametrize("path", recorded(), ids=lambda path: path.name)
def test_recorded_captures(path):
    assert compare_frames(str(path), spis=None) == []
    assert compare_early_tables(str(path)) == []


def test_tables_of_recorded_captures():
    assert compare_tables([str(path) for path in recorded()]) == []


def test_tables_of_recorded_captures_with_keys():
    for path in recorded():
        keys = path.with_name(path.name.partition(".pcap")[0] + ".keys.json")
        if keys.exists():
            assert compare_tables([str(path)], keys=[str(keys)]) == []


@pytest.mark.parametrize("name", sorted(FLOODS))
def test_the_core_reads_floods_as_python_does(name, tmp_path):
    path = tmp_path / "flood.pcap"
    path.write_bytes(flood(name))
    assert compare_frames(str(path)) == []
    assert compare_tables([str(path)]) == []
    assert compare_early_tables(str(path)) == []


@pytest.mark.parametrize("seed", range(40))
def test_generated_captures(seed, tmp_path):
    """Eight a seed; `python -m tests.core.equality` compares more."""
    assert compare_generated(seed, tmp_path) == []


def test_the_core_reads_plain_packets(monkeypatch, tmp_path):
    """Otherwise the comparisons would compare Python with itself."""
    rests = []
    read = plain.read_plain_packets

    def count(*arguments):
        result = read(*arguments)
        rests.append(None if result is None else len(result.rest or ()))
        return result

    monkeypatch.setattr("ikeanalyze.capture.collector.read_plain_packets", count)
    paths = {path.name: str(path) for path in recorded()}
    read_frames(paths["psk-classic.pcap"])
    assert rests == [0]
    with without_core():
        read_frames(paths["psk-classic.pcap"])
    assert rests == [0, None]
    read_frames(paths["ip-fragments-loss10.pcap"])
    assert rests[2] == 91  # tshark -Y "ip.flags.mf == 1 || ip.frag_offset > 0"
    read_frames(paths["tcp-psk.pcap"])
    assert rests[3] is None  # there is nothing but TCP
    read_frames(paths["icmp-ipv4.pcap"])
    assert rests[4] == 16 + 3  # ICMP errors and IP fragments
    path = tmp_path / "echo.pcap"
    echo = ipv4(bytes([8]) + bytes(63), protocol=ip.ICMP), ipv6(bytes([128]) + bytes(63), next_header=ip.ICMPV6)
    path.write_bytes(pcap([Packet(SECOND, link.ethernet(packet)) for packet in echo]))
    assert read_frames(str(path)).accounting["icmp"] == 2
    assert rests[5] == 0
