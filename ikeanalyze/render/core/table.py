"""Text in columns that fit a width, fast enough for a hundred thousand rows."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size

_GAP: Final = "  "


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column of a table."""

    name: str
    right: bool = False  # numbers stand at the right
    narrow: int = 0  # may be cut down to this many cells; 0: is never cut
    middle: bool = False  # is cut in the middle, as its values have their differences at both ends
    optional: int = 0  # is left out if there is no room, the highest first; 0: never


def number_columns(*names: str, optional: int = 0) -> tuple[TableColumn, ...]:
    """Columns of numbers, which are aligned to the right."""
    return tuple(TableColumn(name, right=True, optional=optional) for name in names)


@dataclass(frozen=True, slots=True)
class FittedTable:
    """A table as it fits."""

    columns: tuple[int, ...]  # those that are shown
    widths: tuple[int, ...]
    left_out: tuple[int, ...]  # those for which there is no room


def clip_text(text: str, width: int, *, middle: bool = False) -> str:
    """`text` in at most `width` cells, with an ellipsis where something is missing: at the end or in the middle."""
    if cell_len(text) <= width:
        return text
    if middle and width > 2:
        end = (width - 1) // 2
        return set_cell_size(text, width - 1 - end) + "…" + set_cell_size(text[::-1], end)[::-1]
    return set_cell_size(text, max(width - 1, 0)).rstrip() + "…" if width > 0 else ""


def min_distinct_width(texts: Iterable[str], minimum: int) -> int:
    """The fewest cells, `least` or more, in which texts that differ still do, cut in the middle."""
    different = set(texts)
    width = minimum
    while len({clip_text(text, width, middle=True) for text in different}) < len(different):
        width += 1
    return width


def pad_text(text: str, width: int, *, right: bool = False, middle: bool = False) -> str:
    """`text` in exactly `width` cells."""
    text = clip_text(text, width, middle=middle)
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def fit_columns(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], width: int) -> FittedTable:
    """Widths for `columns`: what can be left out goes first, then the widest is cut."""
    natural = [max([cell_len(column.name), *(cell_len(row[i]) for row in rows)]) for i, column in enumerate(columns)]
    shown = list(range(len(columns)))

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
    """The heading, then a line for each row; without spaces at the end."""
    layout = [
        (i, width, columns[i].right, columns[i].middle) for i, width in zip(fitted.columns, fitted.widths, strict=True)
    ]
    yield _GAP.join(pad_text(columns[i].name, width, right=right) for i, width, right, _ in layout).rstrip()
    for row in rows:
        yield _GAP.join(
            pad_text(row[i], width, right=right, middle=middle) for i, width, right, middle in layout
        ).rstrip()
