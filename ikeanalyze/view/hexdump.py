"""Formats bytes as a hex dump: offset, hexadecimal digits, characters."""

from collections.abc import Collection, Iterator
from typing import Final

from rich.text import Text

_ROW: Final = 16
_HALF_ROW: Final = 8
#: Cells of a row without its bytes: the offset, gaps, and the bars around the characters.
_AROUND: Final = 9
#: Cells of a byte: two digits, a space, a character.
_BYTE: Final = 4
_FIRST, _LAST = 0x20, 0x7E  # printable ASCII characters


def get_row_bytes(width: int) -> int:
    """Return the number of bytes in a row of `width` cells: 16 or 8."""
    return _ROW if width >= _AROUND + _ROW * _BYTE else _HALF_ROW


def format_hexdump(
    data: bytes, width: int, rows: range | None = None, *, marked: Collection[int] = ()
) -> Iterator[Text]:
    """Yield a line for each row of `data`.

    Args:
        data: the bytes.
        width: the width of a line, in cells.
        rows: offsets of the rows to show, with a step of `get_row_bytes` or a multiple; None: all.
        marked: offsets of bytes to highlight.
    """
    size = get_row_bytes(width)
    for at in range(0, len(data), size) if rows is None else rows:
        part = data[at : at + size]
        line = Text(f"{at:04x}  ", "dim", no_wrap=True)
        characters = Text()
        for offset, byte in enumerate(part, at):
            style = "reverse" if offset in marked else "not dim"
            line.append(f"{byte:02x}", style).append(" ")
            characters.append(chr(byte) if _FIRST <= byte <= _LAST else ".", style)
            if offset - at == _HALF_ROW - 1 and size > _HALF_ROW:
                line.append(" ")
        line.append("   " * (size - len(part)) + (" " if len(part) < _HALF_ROW < size else ""))
        yield line.append("|").append_text(characters).append("|")
