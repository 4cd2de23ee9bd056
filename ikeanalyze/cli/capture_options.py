"""Options for captures and keys, and functions that read captures and print their problems."""

import os
import stat
import time
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec import Struct, field
from msgspec.structs import replace

from ikeanalyze import core
from ikeanalyze.analysis.options import ReadOptions, Vantage
from ikeanalyze.analysis.read import analyse_captures as read_analysis
from ikeanalyze.cli.exit_status import FAILED, CommandError, log_stderr
from ikeanalyze.cli.options import MessageOptions
from ikeanalyze.cli.progress import make_progress_bar

if TYPE_CHECKING:
    from ikeanalyze.analysis.read import AnalysedCaptures
    from ikeanalyze.analysis.result import Analysis, CaptureSummary, SkippedFile
    from ikeanalyze.analysis.verification.verify import Verification
    from ikeanalyze.dataset.buckets.analysis import BucketedAnalysis

_MAX_KEY_FILE_BYTES: Final = 16 << 20  # size of a skipped capture that is tested for keys
_LARGE_CAPTURE_BYTES: Final = 200 * 10**6  # size from which on reading takes seconds without the compiled core
_DEFAULT: Final = ReadOptions()

CaptureArgument = Annotated[str, typer.Argument(metavar="CAPTURE", hidden=True)]
PortOption = Annotated[
    list[int],
    typer.Option(
        metavar="N", min=1, max=65535, help="UDP or TCP port that carries IKE, in addition to 500 and 4500. Repeatable."
    ),
]
HandshakeOption = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Number of the handshake, as in the report.")
]
VantageOption = Annotated[
    Vantage | None, typer.Option(help="Side on which the captures were taken (default: inferred).")
]


#: The longest round-trip time, ms: as of links in `predict`. Much longer ones do not fit into nanoseconds.
_MAX_RTT_MS: Final = 1e7
KEYS_HELP: Final = (
    "Keys for decryption: a log of charon or libreswan, a key table of Wireshark, a secret file of tcpdump -E, or JSON "
    "of ikeanalyze. Repeatable."
)
#: How most commands take key files.
WITH_OPTION: Final = "with --keys"


class CaptureOptions(Struct, frozen=True, kw_only=True):
    """How captures are read."""

    keys: Annotated[
        list[str],
        typer.Option(
            metavar="FILE",
            help=KEYS_HELP,
        ),
    ] = field(default_factory=list)
    port: PortOption = field(default_factory=list)


def check_rtt(ms: float | None, option: str) -> None:
    """Raise `typer.BadParameter` unless this is a round-trip time in milliseconds, or None."""
    if ms is not None and not 0 <= ms < float("inf"):
        raise typer.BadParameter(f"{ms} is not a time in milliseconds", param_hint=option)
    if ms is not None and ms > _MAX_RTT_MS:
        raise typer.BadParameter(f"{ms:g} is not in the range 0 to {_MAX_RTT_MS:g} milliseconds", param_hint=option)


def check_twice_readable(capture: str, option: str = "CAPTURE") -> None:
    """Raise `typer.BadParameter` if a capture that a command reads twice is standard input."""
    if capture == "-":
        raise typer.BadParameter("the capture is read twice and cannot be standard input", param_hint=option)


def read_captures(
    captures: Sequence[str],
    inputs: CaptureOptions,
    messages: MessageOptions,
    options: ReadOptions = _DEFAULT,
    *,
    keys_are: str = WITH_OPTION,
) -> "Analysis":
    """Read captures, with all tables. See `analyse_captures`."""
    return analyse_captures(captures, inputs, messages, options, keys_are=keys_are).make_analysis()


def analyse_captures(
    captures: Sequence[str],
    inputs: CaptureOptions,
    messages: MessageOptions,
    options: ReadOptions = _DEFAULT,
    *,
    keys_are: str = WITH_OPTION,
) -> "AnalysedCaptures":
    """Read captures and print the problems with them; exit with status 1 if no capture can be read.

    Ports and progress of `options` are those of `inputs` and `messages`; so are the keys, if `options` has none.
    `keys_are`: how the command takes key files.
    """
    _advise_core(captures, messages)
    start = time.perf_counter()
    with make_progress_bar(quiet=messages.quiet) as progress:
        options = replace(options, ports=tuple(inputs.port), keys=options.keys or tuple(inputs.keys), progress=progress)
        analysis = read_analysis(list(captures), options)
    if messages.verbose:
        packets = sum(summary.packets for summary in analysis.captures)
        seconds = time.perf_counter() - start
        handshakes = analysis.tables.count_handshakes() - analysis.tables.count_rekeyed()
        way = "with" if core.compiled else "without"
        log_stderr(f"{packets:,} packets, {handshakes:,} handshakes read in {seconds:.2f} s {way} the compiled core")
    report_problems(analysis, captures, inputs.keys, messages, keys_are=keys_are)
    return analysis


def make_undecrypted_error(capture: str, analysis: "Analysis", keys: Sequence[str]) -> CommandError:
    """Return the error for a capture of which no message was decrypted; problems of its key files were printed."""
    read = len(set(keys)) - len(analysis.skipped)
    reason = "the keys decrypt no message" if read > 0 else "no file of --keys has usable keys"
    return CommandError(f"{capture}: {reason}, so nothing was written")


def _advise_core(captures: Sequence[str], messages: MessageOptions) -> None:
    """Tell how a large capture would be read faster."""
    if core.compiled is not None:
        return
    sizes = {path: os.path.getsize(path) for path in captures if os.path.isfile(path)}
    path = max(sizes, key=lambda path: sizes[path], default=None)
    if path is not None and sizes[path] > _LARGE_CAPTURE_BYTES:
        text = f"{display_path(path)} has {sizes[path] // 10**6:,} MB, which the compiled core reads in less time"
        messages.remark(f"{text}. It is {core.problem}: see docs/install.md")


def report_problems(
    result: "AnalysedCaptures | BucketedAnalysis | Verification",
    captures: Sequence[str],
    keys: Sequence[str],
    messages: MessageOptions,
    *,
    keys_are: str = WITH_OPTION,
) -> None:
    """Print the problems of captures and key files; exit with status 1 if no capture can be read.

    `keys_are`: how the command takes key files.
    """
    _print_warnings(result, messages)
    _warn_of_equal_captures(result.captures, messages)
    for skipped in result.skipped:
        name = display_path(skipped.path)
        log_stderr(f"{name}: {skipped.reason.removeprefix(f'{name}: ')}{_suggest(skipped, captures, keys, keys_are)}")
    if not result.captures:
        raise typer.Exit(FAILED)


def _suggest(skipped: "SkippedFile", captures: Sequence[str], keys: Sequence[str], keys_are: str) -> str:
    """Return advice for a capture that was named as keys, and for keys that were named as a capture."""
    # imported here because few captures are skipped
    from ikeanalyze.keys.detect import KeyFileError, read_keys

    path = skipped.path
    if path in keys and path not in captures:
        return ". Name it as CAPTURE, without --keys" if "is a capture" in skipped.reason else ""
    try:
        status = os.stat(path) if path != "-" else None
        # a device or pipe may never end
        if status is None or path in keys or not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_KEY_FILE_BYTES:
            return ""
        read_keys(path)
    except (KeyFileError, OSError):
        return ""
    return f". It has keys: name it {keys_are}"


def select_handshake(analysis: "Analysis", number: int) -> "Analysis":
    """Return an analysis with one handshake only; `typer.BadParameter` if there is no handshake with this number."""
    from ikeanalyze.render.report import selection  # loads polars, after which the capture reader cannot fork

    try:
        return selection.select_handshake(analysis, number)
    except LookupError as error:
        raise typer.BadParameter(str(error.args[0]), param_hint="--handshake") from None


def describe_missing_handshakes(result: "Analysis | AnalysedCaptures") -> str:
    """The message for captures without handshakes, with possible causes."""
    if not any(capture.packets for capture in result.captures):
        if any(capture.damaged for capture in result.captures):
            return "no handshake found: no packet can be read, see the warnings"
        whose = "the capture has" if len(result.captures) == 1 else "the captures have"
        return f"no handshake found: {whose} no packets"
    captures_with_warnings = {warning.capture for warning in result.warnings}
    # packets that cannot be read, or whose headers were truncated, are malformed or counted as other
    unread = [capture for capture in result.captures if capture.accounting["malformed"] or capture.accounting["other"]]
    causes = ""
    if any(capture.path in captures_with_warnings for capture in unread):
        causes += "It may be in the packets that cannot be read, see the warnings. "
    if any(capture.snaplen_truncated for capture in unread):
        causes += "Packets were truncated when they were captured: capture whole ones (tcpdump -s 0). "
    if any(capture.accounting["esp"] and not capture.accounting["ike"] for capture in result.captures):
        causes += "There is ESP, whose handshake may have been before the capture began. "
    return f"no handshake found. {causes}If IKE uses another UDP or TCP port, name it with --port"


def display_path(path: str) -> str:
    """Return the name of a capture for messages."""
    return "standard input" if path == "-" else path


def _warn_of_equal_captures(captures: "Sequence[CaptureSummary]", messages: MessageOptions) -> None:
    """Warn of captures with the same packets, such as a file and its compressed copy.

    Those whose times of the first and last packet, and whose packets and bytes of each category are equal are the same.
    """
    alike: dict[tuple[object, ...], list[str]] = {}
    for summary in captures:
        counts = *summary.accounting.values(), *summary.accounting_bytes.values()
        if summary.first_ns is not None:  # with packets, and with their times
            alike.setdefault((summary.first_ns, summary.last_ns, *counts), []).append(display_path(summary.path))
    for paths in alike.values():
        if len(paths) > 1:
            names = f"{', '.join(paths[:-1])} and {paths[-1]}"
            messages.remark(f"{names} have the same packets, which are counted for each: name one of them only")


def _print_warnings(result: "AnalysedCaptures | BucketedAnalysis | Verification", messages: MessageOptions) -> None:
    order = {summary.path: i for i, summary in enumerate(result.captures)}
    warnings = sorted(result.warnings, key=lambda warning: order.get(warning.capture, len(order)))
    for path, group in groupby(warnings, key=lambda warning: warning.capture):
        messages.warn(display_path(path), list(group), f"{display_path(path)}: ")
    captures_with_warnings = {warning.capture for warning in warnings}
    for summary in result.captures:
        if summary.damaged and summary.path not in captures_with_warnings:
            messages.remark(
                f"{display_path(summary.path)}: truncated or damaged after packet {summary.packets}. The rest was read"
            )
