"""Compares two messages: how they were sent, their payloads, and their bytes."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Final, TypeVar

from rich.text import Text

from ikeanalyze.render.core.values import escape_text, format_count, format_ms
from ikeanalyze.view.hexdump import format_hexdump, get_row_bytes
from ikeanalyze.view.message_details import PayloadView, get_message_bytes, inspect_payloads, list_message_facts
from ikeanalyze.view.session import MessageDetails
from ikeanalyze.view.text_lines import FIRST, NAME, SECOND, SPECIAL, TITLE, TextLine, make_fact_line, make_line

#: Rows of the hex dump that are shown for each message.
_MAX_ROWS: Final = 64
#: Pairs of items up to which `SequenceMatcher` is fast enough.
_MAX_PAIRS: Final = 1 << 16
_FIRST_SIGN, _SECOND_SIGN = "< ", "> "

_T = TypeVar("_T")
#: A name and its value.
Fact = tuple[str, str]


def compare_messages(first: MessageDetails, second: MessageDetails, width: int) -> Iterator[TextLine]:
    """Render the differences of two messages: "<" marks the first, ">" the second. `width`: cells of a line."""
    for sign, message, style in ((_FIRST_SIGN, first, FIRST), (_SECOND_SIGN, second, SECOND)):
        row = message.row
        text = Text().append(sign, style).append(message.label, TITLE)
        where = f"  handshake {row['handshake']}, frame {row['first_frame']}"
        yield TextLine(text.append(where, NAME), 2)
    gap = second.row["first_ns"] - first.row["first_ns"]
    yield make_line(f"  {format_ms(abs(gap))} ms {'later' if gap >= 0 else 'earlier'}", NAME, 2)
    yield make_line("")
    yield make_line("How they were sent", TITLE)
    sent = [[fact for fact in list_message_facts(message) if fact[0] != "time"] for message in (first, second)]
    yield from _compare_facts(sent[0], sent[1])
    yield make_line("")
    yield make_line("Payloads", TITLE)
    if any(message.content is None and message.row["protocol"] != "RADIUS" for message in (first, second)):
        yield make_line("  encrypted payloads are compared only with --keys", SPECIAL, 2)
    yield from _compare_payloads(inspect_payloads(first)[0], inspect_payloads(second)[0])
    yield make_line("")
    missing = [f"the {name} message" for name, message in (("first", first), ("second", second)) if not message.parts]
    if missing:
        yield make_line(f"Bytes of {' and '.join(missing)}: no longer found in the capture", SPECIAL, 2)
    else:
        yield from _compare_bytes(get_message_bytes(first), get_message_bytes(second), width)


def _compare_facts(first: Sequence[Fact], second: Sequence[Fact], indent: int = 2) -> Iterator[TextLine]:
    """Render the facts that differ, or that only one message has, in their order."""
    differ = False
    names = max((len(name) for name, _ in [*first, *second]), default=0)
    for left, right in _align(first, second, [name for name, _ in first], [name for name, _ in second]):
        if left == right:
            continue
        differ = True
        for sign, style, fact in ((_FIRST_SIGN, FIRST, left), (_SECOND_SIGN, SECOND, right)):
            if fact is not None:
                line = make_fact_line(*fact, names, indent=indent)
                yield TextLine(Text().append(sign, style).append_text(line.text), line.hang + len(sign))
    if not differ:
        yield make_line(f"{' ' * indent}the same", NAME)


def _compare_payloads(first: Sequence[PayloadView], second: Sequence[PayloadView]) -> Iterator[TextLine]:
    kinds, second_kinds = [payload.kind for payload in first], [payload.kind for payload in second]
    for left, right in _align(first, second, kinds, second_kinds):
        if left is not None and right is not None:
            yield from _compare_payload(left, right)
            continue
        for sign, style, payload in ((_FIRST_SIGN, FIRST, left), (_SECOND_SIGN, SECOND, right)):
            if payload is not None:
                text = f"{escape_text(payload.name)}  {payload.size:,} bytes"
                yield TextLine(Text().append(sign, style).append(text), len(sign))


def _align(
    first: Sequence[_T], second: Sequence[_T], kinds: Sequence[object], second_kinds: Sequence[object]
) -> Iterator[tuple[_T | None, _T | None]]:
    """Pair the items of two sequences whose kinds match, in order; None: an item has no counterpart.

    Sequences that are too long are paired by position, since matching them would take minutes.
    """
    if len(first) * len(second) > _MAX_PAIRS:
        for left, right, kind, second_kind in zip_longest(first, second, kinds, second_kinds):
            if kind == second_kind:
                yield left, right
            else:
                yield from ((left, None), (None, right))
        return
    matcher = SequenceMatcher(None, kinds, second_kinds, autojunk=False)
    for tag, low, high, second_low, second_high in matcher.get_opcodes():
        if tag == "equal":
            yield from zip(first[low:high], second[second_low:second_high], strict=True)
        else:
            yield from ((left, None) for left in first[low:high])
            yield from ((None, right) for right in second[second_low:second_high])


def _compare_payload(left: PayloadView, right: PayloadView) -> Iterator[TextLine]:
    if (left.name, left.size, left.facts) == (right.name, right.size, right.facts):
        yield make_line(f"= {escape_text(left.name)}", NAME, 2)
        return
    name = left.name if left.name == right.name else f"{left.name} / {right.name}"
    size = "" if left.size == right.size else f"  {left.size:,} / {right.size:,} bytes"
    yield make_line(f"≠ {escape_text(name)}{size}", SPECIAL, 2)
    yield from _compare_facts(left.facts, right.facts, indent=4)


def _compare_bytes(first: bytes, second: bytes, width: int) -> Iterator[TextLine]:
    """Render the rows of both hex dumps in which bytes at the same offset differ."""
    size = get_row_bytes(width - len(_FIRST_SIGN))
    shared = min(len(first), len(second))
    differing = [offset for offset in range(shared) if first[offset] != second[offset]]
    same_length = len(first) == len(second)
    lengths = format_count(len(first), "byte") if same_length else f"{len(first):,} and {len(second):,} bytes"
    if differing:
        result = f"{len(differing):,} of {shared:,} differ, from byte {differing[0]:,} on"
    else:
        result = "all the same" if same_length else f"the first {shared:,} are the same"
    yield make_line(f"Bytes: {lengths}, {result}", TITLE, 2)
    marked = set(differing)
    rows = sorted({offset // size for offset in differing})
    for row in rows[:_MAX_ROWS]:
        offset = row * size
        for sign, style, data in ((_FIRST_SIGN, FIRST, first), (_SECOND_SIGN, SECOND, second)):
            (line,) = format_hexdump(data, width - len(sign), range(offset, offset + 1), marked=marked)
            yield TextLine(Text().append(sign, style).append_text(line))
    if len(rows) > _MAX_ROWS:
        yield make_line(f"and {len(rows) - _MAX_ROWS:,} more rows", NAME)
