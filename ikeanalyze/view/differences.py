"""What differs between two messages: how they were sent, payload by payload, and byte by byte."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Final, TypeVar

from rich.text import Text

from ikeanalyze.render.core.values import escape_text, format_count, format_ms
from ikeanalyze.view.hexdump import format_hexdump, get_row_bytes
from ikeanalyze.view.message_details import PayloadView, get_message_bytes, list_message_facts, payload_views
from ikeanalyze.view.session import MessageDetails
from ikeanalyze.view.text_lines import FIRST, NAME, SECOND, SPECIAL, TITLE, TextLine, make_fact_line, make_line

#: Rows of the hex dump that are shown for each message.
_MOST_ROWS: Final = 64
#: Pairs of payloads, or of facts, among which the search for those that stand for one another is quick.
_MOST_PAIRS: Final = 1 << 16
_ONE, _OTHER = "< ", "> "

_T = TypeVar("_T")
Fact = tuple[str, str]
"""A name and its value."""


def compare_messages(one: MessageDetails, other: MessageDetails, width: int) -> Iterator[TextLine]:
    """Two messages, side by side in words: "<" is of the first, ">" of the second. `width`: cells there are."""
    for sign, message, style in ((_ONE, one, FIRST), (_OTHER, other, SECOND)):
        row = message.row
        text = Text().append(sign, style).append(message.label, TITLE)
        where = f"  handshake {row['handshake']:,}, frame {row['first_frame']:,}"
        yield TextLine(text.append(where, NAME), 2)
    apart = other.row["first_ns"] - one.row["first_ns"]
    yield make_line(f"  {format_ms(abs(apart))} ms {'later' if apart >= 0 else 'earlier'}", NAME, 2)
    yield make_line("")
    yield make_line("How they were sent", TITLE)
    yield from _facts(
        [pair for pair in list_message_facts(one) if pair[0] != "time"],
        [pair for pair in list_message_facts(other) if pair[0] != "time"],
    )
    yield make_line("")
    yield make_line("Payloads", TITLE)
    if any(message.content is None and message.row["protocol"] != "RADIUS" for message in (one, other)):
        yield make_line("  what is encrypted is compared with --keys alone", SPECIAL, 2)
    yield from _payloads(payload_views(one)[0], payload_views(other)[0])
    yield make_line("")
    lacking = [name for name, message in (("first", one), ("second", other)) if not message.parts]
    if lacking:
        those = " and ".join(f"the {name} message" for name in lacking)
        yield make_line(f"Bytes: those of {those} could not be found in the capture again", SPECIAL, 2)
    else:
        yield from _bytes(get_message_bytes(one), get_message_bytes(other), width)


def _facts(one: Sequence[Fact], other: Sequence[Fact], indent: int = 2) -> Iterator[TextLine]:
    """Names and values that only one has, or that differ; in their order."""
    differ = False
    names = max((len(name) for name, _ in [*one, *other]), default=0)
    for left, right in _aligned(one, other, [name for name, _ in one], [name for name, _ in other]):
        if left == right:
            continue
        differ = True
        for sign, style, pair in ((_ONE, FIRST, left), (_OTHER, SECOND, right)):
            if pair is not None:
                line = make_fact_line(*pair, names, indent=indent)
                yield TextLine(Text().append(sign, style).append_text(line.text), line.hang + len(sign))
    if not differ:
        yield make_line(f"{' ' * indent}the same", NAME)


def _payloads(one: Sequence[PayloadView], other: Sequence[PayloadView]) -> Iterator[TextLine]:
    for left, right in _aligned(one, other, [its.kind for its in one], [its.kind for its in other]):
        if left is not None and right is not None:
            yield from _pair(left, right)
            continue
        for sign, style, alone in ((_ONE, FIRST, left), (_OTHER, SECOND, right)):
            if alone is not None:
                text = f"{escape_text(alone.name)}  {alone.size:,} bytes"
                yield TextLine(Text().append(sign, style).append(text), len(sign))


def _aligned(
    one: Sequence[_T], other: Sequence[_T], kinds: Sequence[object], other_kinds: Sequence[object]
) -> Iterator[tuple[_T | None, _T | None]]:
    """What of the one stands for what of the other, by kinds in their order; None: it has no counterpart.

    Of more than anybody sends, what stands at the same place is compared: the search would take minutes.
    """
    if len(one) * len(other) > _MOST_PAIRS:
        for left, right, kind, other_kind in zip_longest(one, other, kinds, other_kinds):
            if kind == other_kind:
                yield left, right
            else:
                yield from ((left, None), (None, right))
        return
    matcher = SequenceMatcher(None, kinds, other_kinds, autojunk=False)
    for what, low, high, other_low, other_high in matcher.get_opcodes():
        if what == "equal":
            yield from zip(one[low:high], other[other_low:other_high], strict=True)
        else:
            yield from ((left, None) for left in one[low:high])
            yield from ((None, right) for right in other[other_low:other_high])


def _pair(left: PayloadView, right: PayloadView) -> Iterator[TextLine]:
    if (left.name, left.size, left.facts) == (right.name, right.size, right.facts):
        yield make_line(f"= {escape_text(left.name)}", NAME, 2)
        return
    name = left.name if left.name == right.name else f"{left.name} / {right.name}"
    size = "" if left.size == right.size else f"  {left.size:,} / {right.size:,} bytes"
    yield make_line(f"≠ {escape_text(name)}{size}", SPECIAL, 2)
    yield from _facts(left.facts, right.facts, indent=4)


def _bytes(one: bytes, other: bytes, width: int) -> Iterator[TextLine]:
    """The rows of both in which bytes differ, place by place."""
    size = get_row_bytes(width - len(_ONE))
    shared = min(len(one), len(other))
    differing = [at for at in range(shared) if one[at] != other[at]]
    lengths = format_count(len(one), "byte") if len(one) == len(other) else f"{len(one):,} and {len(other):,} bytes"
    yield make_line(f"Bytes: {lengths}, {_many(differing, shared, len(one) != len(other))}", TITLE, 2)
    marked = set(differing)
    rows = sorted({at // size for at in differing})
    for row in rows[:_MOST_ROWS]:
        at = row * size
        for sign, style, data in ((_ONE, FIRST, one), (_OTHER, SECOND, other)):
            (line,) = format_hexdump(data, width - len(sign), range(at, at + 1), marked=marked)
            yield TextLine(Text().append(sign, style).append_text(line))
    if len(rows) > _MOST_ROWS:
        yield make_line(f"and {len(rows) - _MOST_ROWS:,} more rows", NAME)


def _many(differing: Sequence[int], shared: int, lengths_differ: bool) -> str:
    if not differing:
        return f"the first {shared:,} are the same" if lengths_differ else "all the same"
    return f"{len(differing):,} of {shared:,} differ, from byte {differing[0]:,} on"
