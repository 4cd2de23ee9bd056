"""Outputs whose names end in .gz or .zst, read with other programs."""

import gzip
import subprocess

import pytest
import zstandard

from ikeanalyze.io.atomic_write import open_output, write_private
from ikeanalyze.io.decompress import strip_compression
from ikeanalyze.render.core import output as text_output

#: More than a buffer, and not compressible to nothing.
DATA = b"".join(b"%d\n" % (number * number) for number in range(50_000))


def decompress(path) -> bytes:
    if path.suffix.lower() == ".gz":
        return subprocess.run(["gzip", "-dc"], input=path.read_bytes(), stdout=subprocess.PIPE, check=True).stdout
    with zstandard.open(path) as stream:
        return stream.read()


@pytest.mark.parametrize("name", ["x.json.gz", "x.JSON.GZ", "x.zst"])
@pytest.mark.parametrize("kind", ["bytes", "text", "secret"])
def test_a_name_with_the_suffix_of_a_compression_is_compressed(tmp_path, name, kind):
    path = tmp_path / name
    if kind == "bytes":
        with open_output(str(path)) as stream:
            stream.write(DATA[:100])
            stream.write(memoryview(DATA)[100:])
    elif kind == "text":
        with text_output.open_output(str(path)) as text:
            text.write(DATA.decode())
    else:
        write_private(str(path), DATA.decode())
    assert path.stat().st_size < len(DATA) / 2
    assert decompress(path) == DATA


def test_the_same_data_give_the_same_file(tmp_path):
    for name in ("a.gz", "b.gz"):
        with open_output(str(tmp_path / name)) as stream:
            stream.write(DATA)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert (tmp_path / "a.gz").read_bytes()[3:8] == bytes(5)  # neither a name nor a time (RFC 1952, 2.3)


@pytest.mark.parametrize("name", ["x.gz", "x.zst", "x"])
def test_an_error_leaves_the_existing_file(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"before")

    def fail():
        with text_output.open_output(str(path)) as text:
            text.write("half")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_an_empty_output_is_a_whole_file(tmp_path):
    with open_output(str(tmp_path / "x.gz")):
        pass
    assert gzip.decompress((tmp_path / "x.gz").read_bytes()) == b""


def test_the_name_below_a_compression():
    assert [strip_compression(name) for name in ("x.json.gz", "x.pcap.ZST", "x.gz/y", "x.xz", "-")] == [
        "x.json",
        "x.pcap",
        "x.gz/y",
        "x.xz",
        "-",
    ]
