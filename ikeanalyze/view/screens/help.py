"""The help text of the browser."""

from collections.abc import Iterator
from typing import Final

from ikeanalyze.analysis.tables.filter_language import NAMES
from ikeanalyze.view.text_lines import TITLE, TextLine, make_fact_lines, make_line

_LIST: Final = (
    ("↑ ↓, k j", "previous, next entry"),
    ("PgUp PgDn, Ctrl-B Ctrl-F", "previous, next page; Ctrl-U Ctrl-D: half a page"),
    ("Home End, g G", "first, last entry"),
    ("← →", "scroll horizontally on a narrow screen"),
    ("Enter", "the handshake as a ladder"),
    ("/, f, F3", "filter; Enter keeps it, Esc removes it"),
    ("< >", "sort by the previous, next column; or click its name"),
    ("z", "reverse the order"),
    ("Space", "select a handshake to save, or clear the selection"),
    ("s, F2", "save the selected handshakes as a capture"),
    ("w", "warnings about the capture"),
    ("q, F10", "quit"),
)
_LADDER: Final = (
    ("↑ ↓, k j ...", "previous, next message"),
    ("Enter, Tab", "go to the pane of the message; Esc goes back"),
    ("m, Space", "mark a message; with two marked, their differences are shown, also across handshakes"),
    ("d", "show the differences again"),
    ("x, F6", "bytes instead of payloads, encrypted and decrypted"),
    ("p", "show or hide payloads in the ladder"),
    ("9 0", "less, more space for the ladder"),
    ("n N", "next, previous handshake of the list"),
    ("s, F2", "save the handshake, the message or the marked messages as a capture"),
    ("Esc, q", "back"),
)
_FILTER: Final = (
    ("text", "anywhere in the row: address, SPI, outcome, reason, algorithm, time..."),
    ("outcome:failed", "text in one column"),
    ("bytes>2000", "number above, below (<) or equal (=); set-up times in ms"),
    ("!word", "rows that the word does not match"),
)


def render_help() -> Iterator[TextLine]:
    """Render the help."""
    for title, pairs in (("List", _LIST), ("Handshake", _LADDER), ("Filter: all words must match", _FILTER)):
        yield make_line(title, TITLE)
        yield from make_fact_lines(pairs)
        yield make_line("")
    yield make_line(f"  Names: {', '.join(NAMES)}", hang=2)
