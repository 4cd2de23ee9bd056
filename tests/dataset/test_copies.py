import gzip
import shutil
from pathlib import Path

import pytest

import ikeanalyze
from ikeanalyze.dataset.compare.compare import ComparisonRequest, compare_groups
from ikeanalyze.dataset.compare.source import open_tables
from ikeanalyze.dataset.copies import CaptureOverlap
from ikeanalyze.render.report.parquet import write_parquet
from tests.craft.packet import SECOND, Packet
from tests.craft.pcap_file import pcap
from tests.dataset.made import batch, capture, runs
from tests.paths import CAPTURES, LAB_CAPTURES

LOSSY = CAPTURES / "loss20-classic.pcap"


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    shutil.copy(LOSSY, "in/a.pcap")


def overlaps():
    return batch(Path("out"), "in").overlaps


@pytest.mark.parametrize(
    ("count", "names"),
    [
        (2, "1.pcap and 2.pcap"),
        (5, "1.pcap, 2.pcap, 3.pcap, 4.pcap and 5.pcap"),
        (6, "1.pcap, 2.pcap, 3.pcap and 3 other captures"),
        (1500, "1.pcap, 2.pcap, 3.pcap and 1,497 other captures"),
    ],
)
def test_a_sentence_names_few_of_many_captures(count, names):
    captures = tuple(f"{number}.pcap" for number in range(1, count + 1))
    assert str(CaptureOverlap(captures, 2, identical=True)) == f"{names} have the same contents"
    assert str(CaptureOverlap(captures, 2, identical=False)) == f"{names} have 2 handshakes in common"


def test_a_copy_and_its_compressed_copy_have_the_same_contents():
    shutil.copy(LOSSY, "in/b.pcap")
    Path("in/c.pcap.gz").write_bytes(gzip.compress(LOSSY.read_bytes()))
    (overlap,) = overlaps()
    assert overlap == CaptureOverlap(("in/a.pcap", "in/b.pcap", "in/c.pcap.gz"), 25, identical=True)
    assert str(overlap) == "in/a.pcap, in/b.pcap and in/c.pcap.gz have the same contents"


def test_a_recording_with_a_part_of_another_one_overlaps():
    data = LOSSY.read_bytes()
    Path("in/part.pcap").write_bytes(data[: len(data) // 2])
    (overlap,) = overlaps()
    assert (overlap.captures, overlap.identical) == (("in/a.pcap", "in/part.pcap"), False)
    assert 5 < overlap.shared < 20
    assert str(overlap) == f"in/a.pcap and in/part.pcap have {overlap.shared} handshakes in common"


def test_a_truncated_copy_of_the_only_handshake_has_other_contents():
    Path("in/a.pcap").write_bytes(capture(1))
    Path("in/cut.pcap").write_bytes(capture(1)[:-10])
    (overlap,) = overlaps()
    assert str(overlap) == "in/a.pcap and in/cut.pcap have 1 handshake in common"


def test_what_was_extracted_from_a_capture_with_other_traffic_has_other_contents():
    handshake = capture(1)
    Path("in/extracted.pcap").write_bytes(handshake)
    Path("in/a.pcap").write_bytes(handshake + pcap([Packet(9 * SECOND, bytes(60))])[len(pcap([])) :])
    (overlap,) = overlaps()
    assert str(overlap) == "in/a.pcap and in/extracted.pcap have 1 handshake in common"


@pytest.mark.parametrize("read", ["batch", "report"])
def test_a_comparison_does_not_call_a_truncated_copy_the_same(read):
    Path("in/a.pcap").write_bytes(capture(1))
    Path("in/cut.pcap").write_bytes(capture(1)[:-10])
    if read == "batch":
        overlaps()
    else:
        write_parquet(ikeanalyze.read(["in/a.pcap", "in/cut.pcap"]), "out")
    (remark,) = compare_groups(open_tables("out"), ComparisonRequest(["capture"], ["bytes"])).remarks
    assert (
        remark == "in/a.pcap and in/cut.pcap have 1 handshake in common: these handshakes count once for each capture"
    )


def test_a_pair_of_copies_that_overlaps_a_third_capture_is_named_once():
    data = LOSSY.read_bytes()
    Path("in/b.pcap").write_bytes(data)
    Path("in/part.pcap").write_bytes(data[: len(data) // 2])
    texts = [str(overlap) for overlap in overlaps()]
    assert [text for text in texts if text.startswith("in/a.pcap and in/b.pcap have")] == [
        "in/a.pcap and in/b.pcap have the same contents"
    ]


def test_equal_files_without_handshakes_are_copies_too():
    for name in ("x", "y"):
        Path(f"in/{name}.pcap").write_bytes(pcap([]))
    assert overlaps() == [CaptureOverlap(("in/x.pcap", "in/y.pcap"), 0, identical=True)]


def test_independent_runs_and_both_ends_of_a_link_do_not_overlap():
    runs(Path("in"), 3)
    for path in LAB_CAPTURES.glob("loss_*.pcapng"):
        shutil.copy(path, "in")
    assert overlaps() == []


def test_a_batch_that_reads_nothing_does_not_look_again():
    shutil.copy(LOSSY, "in/b.pcap")
    assert overlaps()
    assert overlaps() == []


def test_a_comparison_repeats_it_unless_the_copies_are_left_out():
    shutil.copy(LOSSY, "in/b.pcap")
    overlaps()
    request = ComparisonRequest(["capture"], ["bytes"])
    expected = "in/a.pcap and in/b.pcap have the same contents: these handshakes count once for each capture"
    assert compare_groups(open_tables("out"), request).remarks == (expected,)
