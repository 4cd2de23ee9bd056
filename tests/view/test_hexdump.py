import shutil
import subprocess

import pytest

from ikeanalyze.view.hexdump import format_hexdump, get_row_bytes

DATA = bytes(range(0x41, 0x41 + 20)) + b"\x00\x1b\x7f\xff"


def test_a_hexdump_has_offset_bytes_and_characters():
    lines = [line.plain for line in format_hexdump(DATA, 80)]
    assert lines[0] == "0000  41 42 43 44 45 46 47 48  49 4a 4b 4c 4d 4e 4f 50 |ABCDEFGHIJKLMNOP|"
    assert lines[1].split("|") == ["0010  51 52 53 54 00 1b 7f ff " + " " * 25, "QRST....", ""]
    assert len({line.index("|") for line in lines}) == 1
    assert list(format_hexdump(b"", 80)) == []


@pytest.mark.parametrize("width", [40, 72, 73, 200])
def test_rows_fit_the_width(width):
    assert get_row_bytes(width) == (16 if width >= 73 else 8)
    assert max(line.cell_len for line in format_hexdump(bytes(100), width)) <= width


@pytest.mark.skipif(not shutil.which("od"), reason="asks od")
def test_bytes_are_shown_as_by_od():
    done = subprocess.run(["od", "-An", "-tx1", "-v"], input=DATA, stdout=subprocess.PIPE, check=True)
    digits = "".join(line.plain[6:].split("|")[0] for line in format_hexdump(DATA, 80))
    assert digits.split() == done.stdout.decode().split()


def test_marked_bytes_stand_out():
    (line,) = format_hexdump(DATA, 80, range(16, 17), marked={17})
    reversed_ = [line.plain[span.start : span.end] for span in line.spans if "reverse" in str(span.style)]
    assert reversed_ == ["52", "R"]
    assert line.plain.startswith("0010")
