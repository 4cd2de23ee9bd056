"""Files of one recording, as `dumpcap -b` writes them, are read as the capture that they are parts of."""

import gzip
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.capture.frames import read_frames, read_joined_frames
from tests.paths import CAPTURES, LAB_CAPTURES

pytestmark = pytest.mark.tshark


def split(capture: Path, directory: Path, packets: int) -> list[Path]:
    """Split a capture as a ring buffer does; return the files in order."""
    subprocess.run(["editcap", "-c", str(packets), capture, directory / "ring.pcapng"], check=True)
    return sorted(directory.glob("ring*"))


@pytest.mark.parametrize(
    "capture",
    [CAPTURES / "loss20-classic.pcap", CAPTURES / "ip-fragments-loss10.pcap", LAB_CAPTURES / "nat.pcapng"],
    ids=lambda path: path.stem,
)
@pytest.mark.parametrize("packets", [3, 7])
def test_parts_give_the_frames_of_the_whole(capture, packets, tmp_path):
    whole = read_frames(str(capture))
    parts = split(capture, tmp_path, packets)
    assert len(parts) > 1
    joined, paths, skipped = read_joined_frames([str(path) for path in reversed(parts)])
    assert paths == [str(path) for path in parts]
    assert skipped == []
    assert (joined.packets, joined.bytes, joined.accounting) == (whole.packets, whole.bytes, whole.accounting)
    assert (joined.first_ns, joined.last_ns) == (whole.first_ns, whole.last_ns)
    assert joined.interfaces == read_frames(str(parts[0])).interfaces
    for name, column in whole.columns.items():
        if name != "datagram":
            np.testing.assert_array_equal(joined.columns[name], column, err_msg=name)
    # the numbers of datagrams are arbitrary, which frames have the same is not
    pairs = set(zip(joined.columns["datagram"].tolist(), whole.columns["datagram"].tolist(), strict=True))
    assert len(pairs) == len(set(whole.columns["datagram"].tolist())) == len(set(joined.columns["datagram"].tolist()))


def test_formats_and_compressions_are_mixed(tmp_path):
    whole = read_frames(str(CAPTURES / "psk-classic.pcap"))
    first, second, *_ = split(CAPTURES / "psk-classic.pcap", tmp_path, whole.packets // 2 + 1)
    subprocess.run(["editcap", "-F", "pcap", second, tmp_path / "b.pcap"], check=True)
    (tmp_path / "a.pcapng.gz").write_bytes(gzip.compress(first.read_bytes()))
    joined, _, _ = read_joined_frames([str(tmp_path / "b.pcap"), str(tmp_path / "a.pcapng.gz")])
    assert joined.format == "pcap+pcapng"
    np.testing.assert_array_equal(joined.columns["digest"], whole.columns["digest"])


def test_interfaces_of_the_parts_are_those_of_the_whole(tmp_path):
    for name in ("psk", "ipv6"):
        subprocess.run(["editcap", "-t", "1", LAB_CAPTURES / f"{name}.pcapng", tmp_path / name], check=True)
    subprocess.run(["mergecap", "-I", "none", "-w", tmp_path / "two", tmp_path / "psk", tmp_path / "ipv6"], check=True)
    whole = read_frames(str(tmp_path / "two"))
    joined, _, _ = read_joined_frames([str(path) for path in split(tmp_path / "two", tmp_path, 9)])
    np.testing.assert_array_equal(joined.columns["interface"], whole.columns["interface"])
    assert len(joined.interfaces) == 2


def test_a_damaged_and_an_unreadable_part_do_not_cost_the_others(tmp_path):
    parts = split(CAPTURES / "loss20-classic.pcap", tmp_path, 50)
    parts[1].write_bytes(parts[1].read_bytes()[:-30])
    parts[2].write_bytes(b"no capture")
    joined, _, skipped = read_joined_frames([str(path) for path in parts])
    assert [(path, reason.partition(";")[0]) for path, reason in skipped] == [
        (str(parts[2]), "not a pcap or pcapng file")
    ]
    assert joined.packets == read_frames(str(CAPTURES / "loss20-classic.pcap")).packets - 51
    assert joined.damaged
    assert [text for _, text in joined.warnings if str(parts[1]) in text and "damaged at byte" in text]


def test_a_pipe_is_not_read_because_it_cannot_be_read_twice(tmp_path):
    """Reading it a second time would find it empty, or wait for another writer for ever."""
    os.mkfifo(tmp_path / "pipe")
    capture = str(CAPTURES / "psk-classic.pcap")
    joined, paths, skipped = read_joined_frames([str(tmp_path / "pipe"), capture])
    assert paths == [capture]
    assert joined.packets > 0
    assert skipped == [
        (str(tmp_path / "pipe"), "not a file, and cannot be read twice, as --join does; write it to a file first")
    ]


def test_nothing_can_be_read(tmp_path):
    with pytest.raises(CaptureError, match="no such file"):
        read_joined_frames([str(tmp_path / "absent")])
    with pytest.raises(CaptureError, match="standard input cannot be joined"):
        read_joined_frames(["-", str(CAPTURES / "psk-classic.pcap")])
