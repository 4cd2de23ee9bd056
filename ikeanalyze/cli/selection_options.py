"""Options that select handshakes: a filter and a period."""

from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec import Struct

from ikeanalyze.analysis.tables.selection import CaptureTime, HandshakeSelection, parse_capture_time
from ikeanalyze.cli.exit_status import refuse_option
from ikeanalyze.render.core.values import format_count

if TYPE_CHECKING:
    from ikeanalyze.analysis.result import Analysis
    from ikeanalyze.analysis.tables.filter_language import HandshakeFilter

#: Words of other filter languages, which are texts to find here.
_OPERATORS: Final = ("and", "or", "not", "&&", "||")


class SelectionOptions(Struct, frozen=True, kw_only=True):
    """Which handshakes are wanted."""

    words: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="WORDS",
            help="Only handshakes that match all words, as in `view`: 'outcome:failed', 'bytes>2000', '!nat:none', or "
            "text anywhere, such as an address.",
        ),
    ] = None
    begin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIME",
            help="Only handshakes that begin at this time or later: seconds from the start of the capture, or ISO 8601 "
            "in UTC (2026-01-31T12:00:00).",
        ),
    ] = None
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Only handshakes that begin before this time.")
    ] = None

    def parse(self) -> HandshakeSelection:
        """Return the selection; `typer.BadParameter` if a value is wrong."""
        words = None if self.words is None else _parse_words(self.words)
        return HandshakeSelection(words, _parse_time(self.begin, "--from"), _parse_time(self.end, "--to"))


def _parse_words(text: str) -> "HandshakeFilter":
    from ikeanalyze.analysis.tables.filter_language import FilterError, parse_filter  # for this option alone

    with refuse_option("--filter", FilterError):
        return parse_filter(text)


def _parse_time(text: str | None, option: str) -> CaptureTime | None:
    if text is None:
        return None
    with refuse_option(option, ValueError):
        return parse_capture_time(text)


def describe_empty_selection(analysis: "Analysis", selection: HandshakeSelection) -> str:
    """The message for a selection without handshakes of an analysis that has some."""
    options = ", ".join(f"--{name}" for name in selection.to_dict())
    words = "" if selection.words is None else selection.words.text
    operators = [word for word in words.split() if word.lower() in _OPERATORS]
    advice = f". {operators[0]!r} is a text to find, not an operator: all words must match" if operators else ""
    return f"none of {format_count(analysis.handshakes.height, 'handshake')} matches {options}{advice}"
