"""Variants of pcap that have the magic number of another one, or link types of their own; tshark is the oracle."""

import gzip
import shutil
import struct
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from ikeanalyze import core
from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.capture.reader import open_capture
from ikeanalyze.capture.write.filter import write_selected_packets
from tests.capture.laws import counted, read, rows, texts
from tests.capture.savefiles import pcap_header, pcap_record
from tests.craft import Handshake, Trace, link
from tests.paths import CAPTURES

RECORDED = CAPTURES / "loss20-classic.pcap"
#: Names of formats for `editcap -F`, whose files they are, and bytes of a record header.
UNMARKED = {
    "rh6_1pcap": ("Red Hat", 24),
    "suse6_3pcap": ("SuSE", 28),
    "nokiapcap": ("Nokia", 20),
}
needs_editcap = pytest.mark.skipif(not shutil.which("editcap"), reason="editcap is not installed")


def convert(kind: str, tmp_path: Path, range_of_packets: str = "1-10000") -> Path:
    path = tmp_path / kind
    command = ["editcap", "-F", kind, "-r", str(RECORDED), str(path), range_of_packets]
    subprocess.run(command, check=True, capture_output=True)
    return path


@needs_editcap
@pytest.mark.parametrize("compiled", [True, False], ids=["core", "python"])
@pytest.mark.parametrize("kind", ["modpcap", *UNMARKED])
def test_files_that_editcap_writes_have_the_packets_of_the_original(
    kind: str, compiled: bool, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiled:
        request.getfixturevalue("compiled_core")
    else:
        monkeypatch.setattr(core, "compiled", None)
    ours, original = read(convert(kind, tmp_path).read_bytes()), read(RECORDED.read_bytes())
    assert counted(ours) == counted(original)
    assert ours.bytes == original.bytes
    columns = ("number", "time_ns", "bytes", "source", "destination", "message_id")
    assert rows(ours, *columns) == rows(original, *columns)
    assert [text for text in texts(ours) if "header" not in text] == texts(original)


@needs_editcap
@pytest.mark.parametrize(("kind", "owner", "size"), [(kind, *told) for kind, told in UNMARKED.items()])
def test_a_variant_that_is_recognised_by_its_records_is_named(kind: str, owner: str, size: int, tmp_path: Path) -> None:
    with open_capture(convert(kind, tmp_path)) as reader:
        assert reader.damage is None
        assert [owner in note.what and f"header of {size} bytes" in note.what for note in reader.notes] == [True]


@needs_editcap
@pytest.mark.parametrize("kind", ["modpcap", *UNMARKED])
@pytest.mark.parametrize("count", [2, 1])
def test_one_packet_is_not_enough_to_recognise_a_variant(kind: str, count: int, tmp_path: Path) -> None:
    with open_capture(convert(kind, tmp_path, f"1-{count}")) as reader:
        packets = sum(map(len, reader.iterate_batches()))
        is_known = count > 1 or kind == "modpcap"
        assert packets == count
        assert (reader.damage is None) == is_known


@needs_editcap
@pytest.mark.parametrize("kind", ["modpcap", *UNMARKED])
@pytest.mark.parametrize("numbers", [[2], [1, 3, 4]])
def test_a_copy_of_few_packets_is_read_by_wireshark(kind: str, numbers: list[int], tmp_path: Path, tshark) -> None:
    path, copy = convert(kind, tmp_path), tmp_path / "copy"
    write_selected_packets(str(path), str(copy), numbers)
    frames = tshark.run(
        "-n", "-Tfields", "-eframe.time_epoch", "-eisakmp.messageid", capture=RECORDED.read_bytes()
    ).lines
    copied = tshark.run("-n", "-Tfields", "-eframe.time_epoch", "-eisakmp.messageid", capture=copy.read_bytes()).lines
    assert copied == [frames[number - 1] for number in numbers]
    with open_capture(copy) as reader:
        assert sum(map(len, reader.iterate_batches())) == len(numbers)
        assert reader.damage is None


def test_two_packets_of_a_usual_file_whose_clock_was_set_are_no_variant(tmp_path: Path) -> None:
    """At the place of another layout, the second header has a time near the first one, and lengths of packets."""
    path = tmp_path / "capture"
    records = pcap_record(bytes(76), 16_777_217), pcap_record(b"\x86\xdd" + bytes(74), 1_764_000_000, 760_824)
    path.write_bytes(pcap_header() + b"".join(records))
    with open_capture(path) as reader:
        assert sum(map(len, reader.iterate_batches())) == 2
        assert (reader.notes, reader.damage) == ([], None)


@needs_editcap
@pytest.mark.parametrize("kind", UNMARKED)
def test_the_number_of_bytes_read_at_once_does_not_matter(kind: str, tmp_path: Path) -> None:
    data = convert(kind, tmp_path).read_bytes()
    size = UNMARKED[kind][1]
    starts = [24]
    while starts[-1] < len(data):
        starts.append(starts[-1] + size + struct.unpack_from("<I", data, starts[-1] + 8)[0])
    for chunk in (64, 256, 1 << 12, 1 << 16):
        with open_capture(tmp_path / kind, chunk=chunk) as reader:
            captured = [size for batch in reader.iterate_batches() for size in batch.captured.tolist()]
        assert captured == [end - begin - size for begin, end in pairwise(starts)]


@pytest.mark.parametrize("compressed", [False, True])
def test_damage_after_the_first_64_kib_does_not_hide_a_variant(compressed: bool, tmp_path: Path) -> None:
    """The same packets are read from a file, all of which is there at once, and from a stream."""
    good = pcap_record(bytes(1500), 1_764_000_000, extra=bytes(4))
    assert 50 * len(good) > 1 << 16
    data = pcap_header() + 50 * good + bytes(len(good))
    path = tmp_path / "capture"
    path.write_bytes(gzip.compress(data) if compressed else data)
    with open_capture(path) as reader:
        assert sum(map(len, reader.iterate_batches())) == 50
        assert reader.damage is not None
        assert ["Nokia" in note.what for note in reader.notes] == [True]


@pytest.mark.parametrize("version", [(2, 3), (2, 5)])
def test_only_version_2_4_has_variants(version: tuple[int, int], tmp_path: Path) -> None:
    path = tmp_path / "capture"
    record = pcap_record(bytes(60), 1_764_000_000, extra=bytes(8))
    path.write_bytes(pcap_header(version=version) + record * 4)
    with open_capture(path) as reader:
        assert reader.notes == []


@pytest.mark.parametrize("odd", [{"length": 3}, {"fraction": 3_000_000}], ids=["longer than on the wire", "time"])
def test_odd_records_of_usual_files_make_no_variant(odd: dict[str, int], tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(pcap_header() + pcap_record(bytes(60), 1_764_000_000, **odd) * 4)
    with open_capture(path) as reader:
        assert sum(map(len, reader.iterate_batches())) == 4
        assert (reader.notes, reader.damage) == ([], None)


def make_aix(order: str, number: int, frames: list[bytes]) -> bytes:
    """Version 2.2: the length on the wire precedes the captured length; times in nanoseconds."""
    records = [
        struct.pack(order + "4I", 1_764_000_000 + place, 123_456_789, len(data), len(data)) + data
        for place, data in enumerate(frames)
    ]
    return pcap_header(order, version=(2, 2), network=number) + b"".join(records)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("number", "frame"), [(6, link.ethernet), (24, link.null)], ids=["ethernet", "loopback"])
def test_aix_has_link_types_of_its_own_and_nanoseconds(tshark, order, number, frame) -> None:
    trace = Trace(frame=frame)
    for message in Handshake(1).setup():
        trace.message(0, message)
    capture = make_aix(order, number, [packet.data for packet in trace.packets])
    ours = read(capture)
    assert counted(ours) == {"ike": 4}
    fields = ("frame.time_epoch", "frame.len", "isakmp.exchangetype")
    lines = tshark.run("-n", "-Tfields", *(f"-e{name}" for name in fields), capture=capture).lines
    expected = [line.split("\t") for line in lines]
    assert [
        [f"{time_ns // 10**9}.{time_ns % 10**9:09}", str(size), str(kind)]
        for time_ns, size, kind in rows(ours, "time_ns", "bytes", "exchange_type")
    ] == expected


@pytest.mark.parametrize("magic", [0x1C0001AC, 0x1C0001AB])
@pytest.mark.parametrize("order", ["<", ">"])
def test_ixia_files_are_named(magic: int, order: str, tmp_path: Path) -> None:
    path = tmp_path / "capture.lcap"
    path.write_bytes(pcap_header(order, magic) + bytes(4) + pcap_record(bytes(60), order=order))
    with pytest.raises(CaptureError, match="it looks like an Ixia capture: convert it with editcap"):
        open_capture(path)
