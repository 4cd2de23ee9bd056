"""Entries of journald's export format are converted to the lines that the daemon logged."""

import pytest

from ikeanalyze.io.journal_export import JournalExport

PREFIX = b"journal charon-systemd[812]: 09[IKE] "


def binary(name: bytes, value: bytes) -> bytes:
    return name + b"\n" + len(value).to_bytes(8, "little") + value + b"\n"


#: The lengths 10, 266 and 0x0a0a have line feeds in their bytes.
TEXTS = [b"a\n" + b"x" * 8, b"b\n\n" + b"y" * 263, b"c\n" + b"z" * 0x0A08]
EXPORT = b"".join(
    b"__CURSOR=s=1;i=%d\n_PID=812\nSYSLOG_IDENTIFIER=charon-systemd\n" % number
    + binary(b"COREDUMP", b"=\n\0\nMESSAGE=no\n")
    + binary(b"MESSAGE", text)
    + b"THREAD=9\nGROUP=IKE\n\n"
    for number, text in enumerate(TEXTS)
) + (b"__CURSOR=s=1;i=9\nMESSAGE=one = line\nGROUP=IKE\n_PID=812\nTHREAD=9\nSYSLOG_IDENTIFIER=charon-systemd\n\n")
LINES = [PREFIX + line for text in [*TEXTS, b"one = line"] for line in text.split(b"\n")]


def convert(*blocks: bytes) -> list[bytes]:
    export = JournalExport()
    return (b"".join(map(export.convert, blocks)) + export.finish()).splitlines()


def test_texts_of_one_and_of_several_lines():
    assert convert(EXPORT) == LINES


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
def test_blocks_end_anywhere(size):
    assert convert(*(EXPORT[at : at + size] for at in range(0, len(EXPORT), size))) == LINES


def test_lines_of_the_file_are_found():
    export = JournalExport()
    export.convert(EXPORT)
    lines = EXPORT.split(b"\n")
    found = [lines[export.find_line(number) - 1] for number in range(1, len(LINES) + 1)]
    for line, expected in zip(found, LINES, strict=True):
        assert line.endswith(expected.removeprefix(PREFIX))


def test_a_file_that_ends_anywhere_gives_the_lines_before():
    for end in range(len(EXPORT)):
        given = convert(EXPORT[:end])
        whole = EXPORT[:end].count(b"GROUP=IKE\n\n")
        before = sum(text.count(b"\n") + 1 for text in TEXTS[:whole])
        assert given[:before] == LINES[:before]
        assert len(given) <= len(LINES)


def test_a_length_that_is_none_is_passed_over():
    damaged = b"__CURSOR=s=0\nMESSAGE\n" + b"\xff" * 8 + b"text\nTHREAD=1\n\n"
    assert convert(damaged + EXPORT) == LINES
