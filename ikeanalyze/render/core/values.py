"""Values for text output: times, numbers, lists, and escaped text from a capture."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any, Final

#: Text of an unknown value.
UNKNOWN = "-"
#: In front of a time that may be wrong.
UNCERTAIN_MARK: Final = "~"

#: A value in a table, as `format_cell` takes it.
Cell = str | int | None

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Characters with which a formula of a spreadsheet begins.
FORMULA_BEGINS: Final = ("=", "+", "-", "@")
_SURROGATES: Final = re.compile("[\ud800-\udfff]")


def format_iso_time(ns: int | None) -> str | None:
    """Return a point in time as ISO 8601 in UTC with nine fractional digits."""
    if ns is None:
        return None
    seconds, rest = divmod(ns, 1_000_000_000)
    return f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def format_time(ns: int | None) -> str:
    """Return a point in time in UTC with microseconds: `2026-01-31 12:00:00.000000 UTC`."""
    text = format_iso_time(ns)
    return UNKNOWN if text is None else f"{text[:10]} {text[11:26]} UTC"


def format_ms(ns: int | None, *, uncertain: bool = False) -> str:
    """Return a duration in milliseconds with three fractional digits, without the unit; uncertain ones are marked."""
    return UNKNOWN if ns is None else f"{UNCERTAIN_MARK if uncertain else ''}{ns / 1e6:,.3f}"


def format_duration(ns: int) -> str:
    """Return a duration in ms, s, min and s, or h and min."""
    if ns < 1_000_000_000:
        return f"{ns / 1e6:,.3f} ms"
    seconds = ns / 1e9
    if seconds < 120:
        return f"{seconds:,.3f} s"
    rounded = int(seconds)
    if rounded < 7200:
        return f"{rounded // 60} min {rounded % 60} s"
    return f"{rounded // 3600:,} h {rounded % 3600 // 60} min"


def convert_to_ms(ns: int | None) -> float | None:
    """Return a duration in milliseconds."""
    return None if ns is None else ns / 1e6


def format_integer(value: int | None) -> str:
    """Return an integer with thousands separators."""
    return UNKNOWN if value is None else f"{value:,}"


def format_identifier(value: int | None) -> str:
    """Return the number of a handshake or a packet, or a message ID, as commands and Wireshark's filters take it."""
    return UNKNOWN if value is None else str(value)


def format_decimal(value: float | None, places: int) -> str:
    """Return a number with thousands separators and some fractional digits."""
    return UNKNOWN if value is None else f"{value:,.{places}f}"


def format_cell(value: Cell) -> str:
    """Return a value for a table: text is escaped, an integer has thousands separators."""
    return escape_text(value) if isinstance(value, str) else format_integer(value)


def format_ratio(value: float | None) -> str:
    """Return a ratio such as the blow-up with three fractional digits."""
    return UNKNOWN if value is None else f"{value:.3f}"


def format_count(value: int, singular: str, plural: str | None = None) -> str:
    """Return a number with its noun: `1 frame`, `2 frames`."""
    return f"{value:,} {singular if value == 1 else plural or singular + 's'}"


def join_items(items: Iterable[str | None]) -> str:
    """Return the known items, joined with commas."""
    return ", ".join(escape_text(item) for item in items if item) or UNKNOWN


def format_endpoint(address: str | None, port: int | None) -> str:
    """Return an address, with its port if known."""
    if address is None:
        return UNKNOWN
    return escape_text(address) if port is None else f"{escape_text(address)} port {port}"


def format_key_exchanges(
    first: str | None, additional: Sequence[Mapping[str, Any]] | None, joint: str = " + "
) -> str | None:
    """Return the key exchange methods of a proposal in their order; None if none is known."""
    names = [first, *(slot["method"] or f"method {slot['id']}" for slot in additional or ())]
    escaped = [escape_text(name) for name in names if name]
    return joint.join(escaped) or None


def format_counts(counts: Mapping[str, int]) -> str:
    """Return `2 messages, 3 frames, 400 bytes`."""
    return ", ".join(format_count(counts[name], name.removesuffix("s")) for name in ("messages", "frames", "bytes"))


def format_percentage(part: int, total: int) -> str:
    """Return a part in per cent of the total."""
    return f"{100 * part / total:.1f} %" if total else UNKNOWN


def format_outcome(outcome: str | None, reason: str | None, child_error: str | None = None) -> str:
    """Return the outcome of a handshake with its reason; None: unknown, as of a rekeyed IKE SA without keys."""
    outcome = outcome or "not known"
    text = f"{outcome}: {escape_text(reason)}" if reason else outcome
    return f"{text}, no CHILD_SA: {escape_text(child_error)}" if child_error else text


def format_handshake_title(row: Mapping[str, Any]) -> str:
    """Return `Handshake 1: established in 12.345 ms` for a row of the handshakes table."""
    uncertain = row["uncertain"] is not None
    set_up = f" in {format_ms(row['setup_ns'], uncertain=uncertain)} ms" if row["setup_ns"] is not None else ""
    if row["rekeyed"]:
        return f"Rekeyed IKE SA {row['handshake']}: {row['outcome'] or 'outcome not known'}{set_up}"
    return f"Handshake {row['handshake']}: {format_outcome(row['outcome'], row['reason'])}{set_up}"


def format_input_name(path: str) -> str:
    """Return the path of a capture as given on the command line, or `standard input`."""
    return "standard input" if path == "-" else escape_text(path)


def strip_common_folder(paths: Sequence[str]) -> dict[str, str]:
    """Map paths to escaped paths without their common folders."""
    folders = zip(*(path.split("/")[:-1] for path in paths), strict=False)
    common = sum(1 for _ in takewhile(lambda names: len(set(names)) == 1, folders))
    return {path: escape_text("/".join(path.split("/")[common:])) for path in paths}


def escape_cell(text: str) -> str:
    """Return `text` for a CSV cell: on one line, printable, and not a formula (OWASP, "CSV Injection").

    Spreadsheets run a cell that begins with one of these characters; a quote in front of it makes it text.
    """
    text = escape_text(text)
    return f"'{text}" if len(text) > 1 and text.startswith(FORMULA_BEGINS) else text


def escape_text(text: str) -> str:
    """Return `text` on one line, with escapes for characters that are not printable: it is safe for a terminal.

    A byte of a path that is not UTF-8 (PEP 383) is written as in tables: with two hexadecimal digits.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape_character(c) for c in text)


def escape_surrogates(text: str) -> str:
    """Return `text` with escapes for lone surrogates, as of bytes of a path that are not UTF-8."""
    return _SURROGATES.sub(lambda match: _escape_character(match[0]), text)


def _escape_character(character: str) -> str:
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape", "surrogatepass").decode()
