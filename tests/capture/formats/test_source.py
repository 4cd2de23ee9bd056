import gzip
import io
import os
import sys
import threading
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.capture.formats.source import CaptureSource, open_source

#: Bytes that do not compress away, in which every position can be told from others.
DATA = b"".join(i.to_bytes(4, "big") for i in range(50_000))


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


SKIPPABLE = b"\x5a\x2a\x4d\x18" + b"\x03\0\0\0" + b"???"
WAYS = {
    "plain": (DATA, None),
    "gzip": (gzip.compress(DATA), "gzip"),
    "gzip members": (
        b"".join(gzip.compress(DATA[i : i + 70_000]) for i in range(0, len(DATA), 70_000)),
        "gzip",
    ),
    "gzip with empty members": (gzip.compress(b"") * 3 + gzip.compress(DATA) + gzip.compress(b""), "gzip"),
    "gzip padded with zeros": (gzip.compress(DATA) + bytes(70_000), "gzip"),
    "zstd": (zstd(DATA), "zstd"),
    "zstd frames": (SKIPPABLE + zstd(DATA[:99_999]) + SKIPPABLE + zstd(DATA[99_999:]), "zstd"),
}


def drain(source: CaptureSource, piece: int = 65536) -> bytes:
    target, out = memoryview(bytearray(piece)), bytearray()
    while count := source.read_into(target):
        out += target[:count]
    assert source.read_into(target) == 0
    assert source.position == len(out)
    return bytes(out)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("piece", [3, 1000, 1 << 22])
def test_files_are_decompressed_by_content(way: str, piece: int, tmp_path: Path) -> None:
    content, compression = WAYS[way]
    path = tmp_path / "misleading.txt"
    path.write_bytes(content)
    source = open_source(path)
    assert source.compression == compression
    assert source.size == len(content)
    assert source.name == str(path)
    assert drain(source, piece) == DATA
    assert source.consumed == len(content)
    assert source.damage is None
    source.close()


@pytest.mark.parametrize("way", WAYS)
def test_named_pipe_that_trickles(way: str, tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    content = WAYS[way][0]

    def write() -> None:
        with open(path, "wb", buffering=0) as file:
            for at in [0, 1, 2, 3, *range(4, len(content), 60_000)]:
                file.write(content[at : at + 1] if at < 4 else content[at : at + 60_000])

    writer = threading.Thread(target=write)
    writer.start()
    source = open_source(path)
    assert source.size is None
    assert drain(source) == DATA
    source.close()
    writer.join()


@pytest.mark.parametrize("way", WAYS)
def test_standard_input_is_decompressed_by_content(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content, compression = WAYS[way]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    source = open_source("-")
    assert source.name == "standard input"
    assert source.compression == compression
    assert drain(source) == DATA
    source.close()
    assert not sys.stdin.buffer.closed


def test_standard_input_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(CaptureError, match="standard input: is closed"):
        open_source("-")


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"nothing\.pcap: no such file"):
        open_source(tmp_path / "nothing.pcap")
    with pytest.raises(CaptureError, match=r'^"": no such file'):
        open_source("")


def test_a_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="is a directory"):
        open_source(tmp_path)


def test_an_unreadable_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)  # root may read anything
    with pytest.raises(CaptureError, match=r"a\.pcap: permission denied"):
        open_source("a.pcap")


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000])
def test_an_impossible_name_is_an_error(path: str) -> None:
    with pytest.raises(CaptureError, match="cannot be opened"):
        open_source(path)


def test_an_empty_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty.pcap").touch()
    with pytest.raises(CaptureError, match=r"empty\.pcap: the file is empty"):
        open_source(tmp_path / "empty.pcap")


@pytest.mark.parametrize("content", [b"a", b"abc", b"\x1f\x8b", b"\x28\xb5"])
def test_very_short_files_are_read(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(content)
    source = open_source(tmp_path / "short")
    assert drain(source) == (b"" if source.compression else content)
    assert (source.damage is not None) == (source.compression is not None)


def test_a_read_error_is_damage(tmp_path: Path) -> None:
    class Failing(io.RawIOBase):
        def readinto(self, target: object) -> int:
            raise OSError(5, "Input/output error")

    source = CaptureSource("disk", Failing(), None, b"head")
    assert drain(source) == b"head"
    assert source.damage == "reading failed (Input/output error)"


@pytest.mark.parametrize("way", ["gzip", "gzip members"])
def test_cut_gzip_gives_all_that_is_there(way: str, tmp_path: Path) -> None:
    import zlib

    content = WAYS[way][0]
    for kept in (5, 12, 100, len(content) // 2, len(content) - 9, len(content) - 8, len(content) - 1):
        (tmp_path / "cut").write_bytes(content[:kept])
        source = open_source(tmp_path / "cut")
        got = drain(source)
        assert DATA.startswith(got)
        assert source.damage == "the gzip data ends too early"
        if way == "gzip":
            assert got == zlib.decompressobj(31).decompress(content[:kept])


def test_cut_zstd_gives_whole_blocks(tmp_path: Path) -> None:
    content = WAYS["zstd"][0]
    (tmp_path / "cut").write_bytes(content[:-5])
    source = open_source(tmp_path / "cut")
    got = drain(source)
    assert DATA.startswith(got)
    assert len(got) >= 131072
    assert source.damage == "the zstd data ends too early"


def test_damaged_gzip_gives_what_came_before(tmp_path: Path) -> None:
    content = bytearray(WAYS["gzip members"][0])
    second = content.index(b"\x1f\x8b\x08", 10)
    content[second + 5000 : second + 5040] = b"\xff" * 40
    (tmp_path / "bad").write_bytes(content)
    source = open_source(tmp_path / "bad")
    got = drain(source)
    assert len(got) > 70_000
    assert DATA.startswith(got[:75_000])
    assert source.damage is not None
    assert source.damage.startswith("the gzip data is damaged (")


def test_wrong_checksum_loses_nothing(tmp_path: Path) -> None:
    for way, at in (("gzip", -6), ("zstd", -2)):
        content = bytearray(WAYS[way][0])
        content[at] ^= 1
        (tmp_path / way).write_bytes(content)
        source = open_source(tmp_path / way)
        got = drain(source)
        assert DATA.startswith(got)
        assert len(got) == len(DATA) or way == "zstd"
        assert source.damage is not None
        assert "damaged" in source.damage


def test_something_else_behind_gzip(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(gzip.compress(DATA) + b"trailing")
    source = open_source(tmp_path / "a")
    assert drain(source) == DATA
    assert source.damage is not None


@given(st.sampled_from(["gzip members", "zstd"]), st.floats(0, 1), st.integers(0, 255))
def test_any_byte_may_be_corrupted(way: str, where: float, value: int) -> None:
    content = bytearray(WAYS[way][0])
    content[int(where * (len(content) - 1))] = value
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(bytes(content))))
        source = open_source("-")
        got = drain(source)
    if source.compression:
        assert got == DATA or source.damage
    else:
        assert got == content


def test_a_source_refuses_its_own_file_as_output(tmp_path: Path) -> None:
    path, link, other = (tmp_path / name for name in ("file", "link", "other"))
    for one in (path, other):
        one.write_bytes(gzip.compress(DATA))
    link.symlink_to(path)
    source = open_source(path)
    with path.open("ab") as same, other.open("ab") as another:
        for output in (str(path), str(link), same):
            with pytest.raises(CaptureError, match=f"^{path}: is also the output"):
                source.refuse_as_output(output)
        for output in (str(other), str(tmp_path / "missing"), another, io.BytesIO()):
            source.refuse_as_output(output)
    source.close()


def test_a_source_refuses_standard_output_that_is_its_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(DATA)
    source = open_source(path)
    with path.open("a") as same:
        monkeypatch.setattr("sys.stdout", same)
        with pytest.raises(CaptureError, match="is also the output"):
            source.refuse_as_output("-")
    monkeypatch.setattr("sys.stdout", None)  # closed
    source.refuse_as_output("-")
    source.close()


def test_a_pipe_may_be_read_and_written(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"data",))
    writer.start()
    source = open_source(pipe)
    source.refuse_as_output(str(pipe))
    drain(source)
    source.close()
    writer.join()
