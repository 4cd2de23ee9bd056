"""What the keys of the browser do."""

from collections.abc import Iterator
from typing import Final

from ikeanalyze.view.filters import NAMES
from ikeanalyze.view.text_lines import TITLE, TextLine, make_fact_lines, make_line

_LIST: Final = (
    ("↑ ↓, k j", "one on"),
    ("PgUp PgDn, Ctrl-B Ctrl-F", "a page on; Ctrl-U Ctrl-D half a page"),
    ("Home End, g G", "the first, the last"),
    ("← →", "see what is beside, where the screen is narrow"),
    ("Enter", "the handshake as a ladder"),
    ("/, f, F3", "filter; Enter keeps it, Esc shows all again"),
    ("< >", "sort by the column before, behind; or click its name"),
    ("z", "turn the order round"),
    ("Space", "choose a handshake to be saved, or not"),
    ("s, F2", "save what is chosen as a capture"),
    ("w", "the warnings of the capture"),
    ("q, F10", "quit"),
)
_LADDER: Final = (
    ("↑ ↓, k j ...", "from message to message"),
    ("Enter, Tab", "to the pane of the message; Esc back"),
    ("m, Space", "mark the message; with two marked, see what differs. They may be of two handshakes"),
    ("d", "the differences once more"),
    ("x, F6", "bytes in place of payloads, encrypted and in clear"),
    ("p", "payloads in the ladder, or not"),
    ("9 0", "less, more room for the ladder"),
    ("n N", "the next, the previous handshake of the list"),
    ("s, F2", "save the handshake, the message or the marked messages as a capture"),
    ("Esc, q", "back"),
)
_FILTER: Final = (
    ("text", "somewhere in the row: address, SPI, outcome, reason, algorithm, time ..."),
    ("outcome:failed", "in one column"),
    ("bytes>2000", "a number above, below (<) or equal (=); set-up times in ms"),
    ("!word", "where that is not so"),
)


def render_help() -> Iterator[TextLine]:
    """All of it."""
    for title, pairs in (("List", _LIST), ("Handshake", _LADDER), ("Filter: words that all have to be true", _FILTER)):
        yield make_line(title, TITLE)
        yield from make_fact_lines(pairs)
        yield make_line("")
    yield make_line(f"  Names: {', '.join(NAMES)}", hang=2)
