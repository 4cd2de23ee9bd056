"""Text in columns that fit a width, fast enough for a hundred thousand rows."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from rich.cells import cell_len, set_cell_size

_GAP: Final = "  "


class TableColumn(Struct, frozen=True):
    """One column of a table."""

    name: str
    right: bool = False  # aligned to the right
    narrow: int = 0  # may be cut to this many cells; 0: never cut
    middle: bool = False  # cut in the middle: values differ at both ends
    optional: int = 0  # omitted if the table is too wide, the highest first; 0: never
    least: int = 0  # omitted without a word if there is less room than this for the table


def number_columns(*names: str, optional: int = 0) -> tuple[TableColumn, ...]:
    """Return right-aligned columns."""
    return tuple(TableColumn(name, right=True, optional=optional) for name in names)


class FittedTable(Struct, frozen=True):
    """The columns that fit a width."""

    columns: tuple[int, ...]  # indices of the shown columns
    widths: tuple[int, ...]
    left_out: tuple[int, ...]  # indices of the omitted columns


def clip_text(text: str, width: int, *, middle: bool = False) -> str:
    """Return `text` cut to at most `width` cells, with an ellipsis at the end or in the middle."""
    if cell_len(text) <= width:
        return text
    if middle and width > 2:
        end = (width - 1) // 2
        return set_cell_size(text, width - 1 - end) + "…" + set_cell_size(text[::-1], end)[::-1]
    return set_cell_size(text, max(width - 1, 0)).rstrip() + "…" if width > 0 else ""


def min_distinct_width(texts: Iterable[str], minimum: int) -> int:
    """Return the fewest cells, at least `minimum`, to which the texts can be cut in the middle and still differ."""
    different = set(texts)
    width = minimum
    while len({clip_text(text, width, middle=True) for text in different}) < len(different):
        width += 1
    return width


def pad_text(text: str, width: int, *, right: bool = False, middle: bool = False) -> str:
    """Return `text` cut or padded to exactly `width` cells."""
    text = clip_text(text, width, middle=middle)
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def fit_columns(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], width: int) -> FittedTable:
    """Fit the columns to `width`: first optional columns are omitted, then the widest are cut."""
    natural = [max([cell_len(column.name), *(cell_len(row[i]) for row in rows)]) for i, column in enumerate(columns)]
    shown = [i for i, column in enumerate(columns) if width >= column.least]

    def compute_excess(narrowed: bool) -> int:
        widths = [
            min(natural[i], max(columns[i].narrow, cell_len(columns[i].name)))
            if narrowed and columns[i].narrow
            else natural[i]
            for i in shown
        ]
        return sum(widths) + len(_GAP) * (len(shown) - 1) - width

    left_out: list[int] = []
    while compute_excess(narrowed=True) > 0 and any(columns[i].optional for i in shown):
        least_wanted = max(shown, key=lambda i: columns[i].optional)
        shown.remove(least_wanted)
        left_out.append(least_wanted)
    while (over := compute_excess(narrowed=False)) > 0:
        floor = {i: max(columns[i].narrow, cell_len(columns[i].name)) for i in shown if columns[i].narrow}
        room = {i: natural[i] - floor[i] for i in floor if natural[i] > floor[i]}
        if not room:
            break
        widest = max(room, key=lambda i: natural[i])
        others = [natural[i] for i in room if i != widest and natural[i] < natural[widest]]
        step = natural[widest] - max(others) if others else over
        natural[widest] -= max(1, min(over, room[widest], step))
    return FittedTable(tuple(shown), tuple(natural[i] for i in shown), tuple(sorted(left_out)))


def format_lines(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], fitted: FittedTable) -> Iterator[str]:
    """Yield the heading, then a line for each row, without trailing spaces."""
    layout = [
        (i, width, columns[i].right, columns[i].middle) for i, width in zip(fitted.columns, fitted.widths, strict=True)
    ]
    yield _GAP.join(pad_text(columns[i].name, width, right=right) for i, width, right, _ in layout).rstrip()
    for row in rows:
        yield _GAP.join(
            pad_text(row[i], width, right=right, middle=middle) for i, width, right, middle in layout
        ).rstrip()
