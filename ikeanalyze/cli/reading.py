"""Captures to an analysis, as the commands have it in common, and what standard error is told of it."""

import os
import sys
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from ikeanalyze.cli.outcome import FAILED, say

if TYPE_CHECKING:
    from ikeanalyze.analysis.result import Analysis, Skipped
    from ikeanalyze.analysis.steps import Finished
    from ikeanalyze.analysis.verification import Verification

_FEW_WARNINGS: Final = 10
_LARGEST_MISTAKEN: Final = 16 << 20  # bytes of a file that is looked into for keys, though it was named as a capture

Port = Annotated[
    list[int] | None,
    typer.Option(
        "--port",
        metavar="N",
        min=1,
        max=65535,
        help="A UDP or TCP port that carries IKE besides 500 and 4500. Can be repeated.",
    ),
]
Handshake = Annotated[
    int | None,
    typer.Option(
        "--handshake",
        metavar="N",
        min=1,
        help="Only the handshake of this number, as the report counts them.",
    ),
]
Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--keys",
        metavar="FILE",
        help="Keys to decrypt with: a log of charon or libreswan, a key table of Wireshark, a secret file of "
        "tcpdump -E, or JSON of ikeanalyze. Can be repeated.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No warnings and no progress bar on standard error.")]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", help="All warnings, the time that reading takes, and tracebacks of internal errors."),
]

VantageOption = Annotated[
    str | None,
    typer.Option(
        "--vantage",
        metavar="SIDE",
        help="The side that the captures were taken on, initiator or responder; else it is worked out.",
    ),
]

Vantage = Literal["initiator", "responder"]


def chosen_vantage(side: str | None) -> Vantage | None:
    """The side that was named; wrong usage if it is none."""
    match side:
        case None | "initiator" | "responder":
            return side
    raise typer.BadParameter(f"{side!r} is neither initiator nor responder", param_hint="--vantage")


def chosen_rtt(ms: float | None, option: str = "--rtt") -> float | None:
    """A round-trip time in milliseconds; wrong usage if it is none."""
    if ms is None or 0 <= ms < float("inf"):
        return ms
    raise typer.BadParameter(f"{ms} is no time in milliseconds", param_hint=option)


def check_inputs(captures: Sequence[str], output: str, keys: Sequence[str] | None = None) -> None:
    """Refuse what cannot be meant: standard input twice or from a keyboard, and an input as the output."""
    keys = keys or ()
    if [*captures, *keys].count("-") > 1:
        hint = "CAPTURE" if captures.count("-") > 1 else "--keys"
        raise typer.BadParameter("standard input can be read only once", param_hint=hint)
    if "-" in keys and sys.stdin is not None and sys.stdin.isatty():
        raise typer.BadParameter("standard input is a terminal; pipe keys into it or name a file", param_hint="--keys")
    if "-" in captures and sys.stdin is not None and sys.stdin.isatty():
        raise typer.BadParameter(
            "standard input is a terminal; pipe a capture into it or name a file", param_hint="CAPTURE"
        )
    for what, paths in (("captures", captures), ("files with keys", keys)):
        for path in paths:
            if output != "-" and path != "-" and _same(path, output):
                raise typer.BadParameter(f"{output} is one of the {what}, it would be overwritten", param_hint="-o")


def _same(one: str, other: str) -> bool:
    try:
        return os.path.isfile(one) and os.path.samefile(one, other)
    except OSError:
        return False


def read(
    captures: Sequence[str],
    *,
    ports: Sequence[int] | None,
    vantage: Vantage | None = None,
    rtt_ms: float | None = None,
    quiet: bool,
    verbose: bool,
    finished: "Finished | None" = None,
    keys: Sequence[str] | None = None,
    payloads: bool = False,
    cleartext: bool = False,
) -> "Analysis":
    """Read `captures` and say what is wrong with them; exit with status 1 if none of them can be read.

    `finished`, `keys`, `payloads` and `cleartext` are as in `analysis.options.ReadOptions`.
    """
    import time

    from ikeanalyze.analysis.options import ReadOptions
    from ikeanalyze.analysis.read import read as read_captures
    from ikeanalyze.cli.progress import bar

    start = time.perf_counter()
    with bar(quiet=quiet) as progress:
        options = ReadOptions(
            ports=tuple(ports or ()),
            vantage=vantage,
            rtt_ms=rtt_ms,
            keys=tuple(keys or ()),
            payloads=payloads,
            cleartext=cleartext,
            progress=progress,
            finished=finished,
        )
        analysis = read_captures(list(captures), options)
    if verbose:
        packets = sum(summary.packets for summary in analysis.captures)
        say(
            f"{packets:,} packets, {analysis.handshakes.height:,} handshakes "
            f"read in {time.perf_counter() - start:.2f} s"
        )
    tell(analysis, captures, keys or (), quiet=quiet, verbose=verbose)
    return analysis


def tell(
    result: "Analysis | Verification",
    captures: Sequence[str],
    keys: Sequence[str],
    *,
    quiet: bool,
    verbose: bool,
) -> None:
    """Say what is wrong with captures and files with keys; exit with status 1 if no capture can be read."""
    if not quiet:
        _warn(result, everything=verbose)
    for skipped in result.skipped:
        name = _name(skipped.path)
        hint = _hint(skipped, captures, keys)
        say(f"{name}: {skipped.reason.removeprefix(f'{name}: ')}{hint}")
    if not result.captures:
        raise typer.Exit(FAILED)


def _hint(skipped: "Skipped", captures: Sequence[str], keys: Sequence[str]) -> str:
    """What to do with a capture that was named as keys, and the other way round."""
    from ikeanalyze.keys.files import KeyFileError, read_keys

    path = skipped.path
    if path in keys and path not in captures:
        return ". Name it as CAPTURE, without --keys" if "is a capture" in skipped.reason else ""
    try:
        if path == "-" or path in keys or os.path.getsize(path) > _LARGEST_MISTAKEN:
            return ""
        read_keys(path)
    except (KeyFileError, OSError):
        return ""
    return ". It has keys: name it with --keys"


def _name(path: str) -> str:
    return "standard input" if path == "-" else path


def _warn(analysis: "Analysis | Verification", *, everything: bool) -> None:
    order = {summary.path: i for i, summary in enumerate(analysis.captures)}
    warnings = sorted(analysis.warnings, key=lambda warning: order.get(warning.capture, len(order)))
    for path, group in groupby(warnings, key=lambda warning: warning.capture):
        told = list(group)
        shown = told if everything else told[:_FEW_WARNINGS]
        for warning in shown:
            where = "" if warning.frame is None else f"packet {warning.frame}: "
            say(f"{_name(path)}: {where}{warning.what}")
        if len(told) > len(shown):
            say(f"{_name(path)}: {len(told) - len(shown):,} more warnings. --verbose shows all of them")
    warned = {warning.capture for warning in warnings}
    for summary in analysis.captures:
        if summary.damaged and summary.path not in warned:
            say(f"{_name(summary.path)}: cut or broken behind packet {summary.packets}. The rest was read")
