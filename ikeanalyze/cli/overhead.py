"""`ikeanalyze overhead`: what ESP costs, computed, or measured in a capture."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ikeanalyze.cli.outcome import SOME_SKIPPED, FailureError, job, say
from ikeanalyze.cli.reading import Port, Quiet, Verbose, check_inputs
from ikeanalyze.cli.writing import Figures, Output, check_figures, chosen_format

if TYPE_CHECKING:
    from ikeanalyze.analysis.esp_traffic import EspTraffic
    from ikeanalyze.keys.keyset import EspKey
    from ikeanalyze.model.esp_overhead import Form
    from ikeanalyze.model.overhead import Question
    from ikeanalyze.model.peer_queue import Sizes
    from ikeanalyze.render.overhead import Answer

_SUITES: Final = ("aes256gcm16", "chacha20poly1305", "aes256-sha256")
_SIZES: Final = "64,128,256,512,1024,1400"
_FIGURE_SIZES: Final = range(40, 1501, 4)
_PAPER_SIZES: Final = "64,480,1500"
_MOST_DELAYS: Final = 100_000
_FEW_KEYS: Final = 10
#: Processors in MIPS: what is beyond is a slip of the pen, and its figures no numbers.
_SLOWEST: Final = 1e-3
_FASTEST: Final = 1e9
_MOST_DIGITS: Final = 9


def overhead(
    suite: Annotated[
        list[str] | None,
        typer.Option(
            "--suite",
            metavar="NAME",
            help="What protects the packets, as in strongSwan's esp_proposals: aes256gcm16, aes128-sha256, "
            "chacha20poly1305, 3des-md5, null-sha256. Can be repeated.",
        ),
    ] = None,
    mode: Annotated[str | None, typer.Option("--mode", metavar="MODE", help="tunnel (default) or transport.")] = None,
    encapsulation: Annotated[
        str | None,
        typer.Option(
            "--encapsulation",
            metavar="HOW",
            help="none (default), udp (RFC 3948) or tcp (RFC 9329, one ESP packet a segment).",
        ),
    ] = None,
    inner: Annotated[
        int | None,
        typer.Option("--inner", metavar="4|6", help="IP version of the packets to protect; else that of --outer."),
    ] = None,
    outer: Annotated[
        int | None,
        typer.Option("--outer", metavar="4|6", help="IP version of the packets on the wire; 4 is the default."),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            "--size",
            metavar="LIST",
            help="Bytes of the packets to protect, IP header included: 64,480 or 40:1500:4 (from:to:step).",
        ),
    ] = None,
    mtu: Annotated[
        int | None,
        typer.Option("--mtu", metavar="BYTES", min=1, help="Also the largest packet that fits this MTU in ESP."),
    ] = None,
    mips: Annotated[
        str | None,
        typer.Option(
            "--mips",
            metavar="LIST",
            help="Processors, in millions of operations per second: 100,300. Also how much traffic they keep up with.",
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            "--rate",
            metavar="LIST",
            help="With --mips, the mean delay at these rates of clear packets: 384k,2M.",
        ),
    ] = None,
    packets: Annotated[
        str | None,
        typer.Option(
            "--packets",
            metavar="SIZES",
            help="With --mips, the traffic: all packets of this many bytes, or pareto (default), with a mean of 480.",
        ),
    ] = None,
    channel: Annotated[
        str | None,
        typer.Option("--channel", metavar="RATE", help="With --mips, the link behind the processor: 2M."),
    ] = None,
    operations: Annotated[
        list[str] | None,
        typer.Option(
            "--operations",
            metavar="SUITE=N",
            help="Operations for each byte, where you know them; des, 3des and md5 are known. Can be repeated.",
        ),
    ] = None,
    paper: Annotated[
        bool,
        typer.Option(
            "--paper",
            help="Sizes by the formulas of Xenakis and Merakos: five suites of DES, 3DES and MD5, transport mode, "
            "UDP, IPv4, without initialization vector.",
        ),
    ] = False,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="CAPTURE", help="Measure the ESP of a capture instead; - is standard input."),
    ] = None,
    keys: Annotated[
        list[str] | None,
        typer.Option(
            "--keys",
            metavar="FILE",
            help="With --from, ESP keys: Wireshark's esp_sa table, or JSON of ikeanalyze. Can be repeated.",
        ),
    ] = None,
    port: Port = None,
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="terminal, json, csv or markdown.")
    ] = "terminal",
    output: Output = "-",
    every: Annotated[
        bool, typer.Option("--all", help="All rows in the terminal and markdown formats, not just 30.")
    ] = False,
    figures: Figures = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """What ESP costs: bytes for each packet, operations of a processor, and the delay that makes.

    Computed for any suite, mode, IP version and encapsulation: how large packets become, how much of them is payload,
    and with --mips how much traffic a processor keeps up with and how long packets wait for it.

    Or measured, with --from CAPTURE: the ESP SAs of a capture with their packets, bytes, sizes, missing and repeated
    sequence numbers, and their rate over time; with --suite also how much of it can be payload, with --keys
    how much of it is.
    """
    with job(verbose=verbose):
        from ikeanalyze.render.overhead import Answer
        from ikeanalyze.render.overhead_formats import FORMATS

        chosen = chosen_format(FORMATS, form)
        from ikeanalyze.render import View
        from ikeanalyze.render.output import check

        check(output)
        check_figures(figures)
        with _said_as_options():
            if source is not None:
                given = {
                    "--mode": mode, "--encapsulation": encapsulation, "--inner": inner, "--outer": outer,
                    "--size": size, "--mtu": mtu, "--mips": mips, "--rate": rate, "--channel": channel,
                    "--operations": operations, "--paper": paper or None, "--packets": packets,
                }  # fmt: skip
                _refuse(given, "is not for --from, which measures")
                answer, skipped = _measured(source, suite, port, keys, output, quiet=quiet, verbose=verbose)
            else:
                _refuse({"--keys": keys}, "is for --from, which measures")
                if paper:
                    given = {
                        "--suite": suite, "--mode": mode, "--encapsulation": encapsulation, "--inner": inner,
                        "--outer": outer, "--mtu": mtu, "--operations": operations,
                    }  # fmt: skip
                    _refuse(given, "is not for --paper, whose formulas have it fixed")
                from ikeanalyze.model.overhead import overhead as computed

                forms = _forms(suite, mode, encapsulation, inner, outer, paper=paper)
                sizes = _sizes(size, paper=paper, drawn=figures is not None)
                question = _question(forms, sizes, mtu, mips, rate, packets, channel, operations, paper=paper)
                answer, skipped = Answer(computed=computed(question)), False
        FORMATS.write(answer, chosen, output, View(every=every))
        if figures is not None:
            _draw(answer, figures, paper=paper and size is None and mips is None, quiet=quiet)
        if skipped:
            raise typer.Exit(SOME_SKIPPED)


@contextmanager
def _said_as_options() -> Iterator[None]:
    """What the model refuses, as wrong usage of the option that it came from."""
    from ikeanalyze.model.esp_algorithms import EspError

    try:
        yield
    except EspError as error:
        raise typer.BadParameter(str(error), param_hint=f"--{error.what}") from None


def _refuse(given: Mapping[str, object], why: str) -> None:
    for name, value in given.items():
        if value is not None and value != []:
            raise typer.BadParameter(why, param_hint=name)


def _forms(
    suites: Sequence[str] | None,
    mode: str | None,
    encapsulation: str | None,
    inner: int | None,
    outer: int | None,
    *,
    paper: bool,
) -> "list[Form]":
    from ikeanalyze.model.esp_algorithms import suite
    from ikeanalyze.model.esp_overhead import Carrier, Form, Mode, checked
    from ikeanalyze.model.overhead import paper_forms

    if paper:
        return paper_forms()
    _one_of("--mode", mode, tuple(Mode))
    _one_of("--encapsulation", encapsulation, tuple(Carrier))
    _one_of("--inner", inner, (4, 6))
    _one_of("--outer", outer, (4, 6))
    version = outer or 4
    return [
        checked(
            Form(
                suite(name),
                Mode(mode or Mode.TUNNEL),
                Carrier(encapsulation or Carrier.NONE),
                inner or version,
                version,
            )
        )
        for name in dict.fromkeys(suites or _SUITES)
    ]


def _one_of(option: str, value: object, known: Sequence[object]) -> None:
    if value is not None and value not in known:
        raise typer.BadParameter(f"there is no {value}; there are {', '.join(map(str, known))}", param_hint=option)


def _sizes(text: str | None, *, paper: bool, drawn: bool) -> list[int]:
    if text is None and drawn and not paper:
        return list(_FIGURE_SIZES)
    values = _numbers(text or (_PAPER_SIZES if paper else _SIZES), "--size")
    if any(value != int(value) for value in values):
        raise typer.BadParameter(f"{text!r}: sizes are whole bytes", param_hint="--size")
    return [int(value) for value in values]


def _numbers(text: str, option: str) -> tuple[float, ...]:
    from ikeanalyze.model.sweep import SweepError, numbers

    try:
        return numbers(text)
    except SweepError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def _bps(text: str, option: str) -> float:
    from ikeanalyze.model.scenarios import ScenarioError, rate

    try:
        found = rate(text)
    except ScenarioError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
    if found <= 0:
        raise typer.BadParameter("a rate is more than 0 bit/s", param_hint=option)
    return found


def _question(
    forms: "list[Form]",
    sizes: list[int],
    mtu: int | None,
    mips: str | None,
    rate: str | None,
    packets: str | None,
    channel: str | None,
    operations: list[str] | None,
    *,
    paper: bool,
) -> "Question":
    from ikeanalyze.model.overhead import Question

    speeds = () if mips is None else _numbers(mips, "--mips")
    if mips is None:
        _refuse({"--rate": rate, "--channel": channel, "--packets": packets}, "needs --mips, the processor")
    for speed in speeds:
        if not _SLOWEST <= speed <= _FASTEST:
            raise typer.BadParameter(
                f"{speed:g} is not allowed; allowed is {_SLOWEST:g} to {_FASTEST:g}", param_hint="--mips"
            )
    rates = [] if rate is None else [_bps(part, "--rate") for part in rate.split(",")]
    behind = None if channel is None else _bps(channel, "--channel")
    if len(rates) * len(speeds) * len(forms) > _MOST_DELAYS:
        raise typer.BadParameter(
            f"with as many processors and suites that makes more than {_MOST_DELAYS:,} delays",
            param_hint="--rate",
        )
    traffic = None if mips is None else _traffic(packets or "pareto", forms[0].inner)
    return Question(forms, sizes, paper, mtu, speeds, traffic, rates, behind, _per_byte(operations or ()))


def _traffic(packets: str, version: int) -> "Sizes":
    from ikeanalyze.model.esp_algorithms import EspError
    from ikeanalyze.model.esp_overhead import check_size
    from ikeanalyze.model.peer_queue import one_size, pareto

    if packets == "pareto":
        return pareto()
    if not packets.isdecimal() or len(packets) > _MOST_DIGITS:
        raise typer.BadParameter(f"{packets!r} is neither a size nor pareto", param_hint="--packets")
    try:
        check_size(int(packets), version)
    except EspError as error:
        raise typer.BadParameter(str(error), param_hint="--packets") from None
    return one_size(int(packets))


def _per_byte(texts: Sequence[str]) -> dict[str, float]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = 0
        if not equals or not 0 < number < 1e9:
            raise typer.BadParameter(f"{text!r} is not SUITE=N, with N above 0", param_hint="--operations")
        found[name.lower()] = number
    return found


def _measured(
    source: str,
    suites: list[str] | None,
    port: list[int] | None,
    key_files: list[str] | None,
    output: str,
    *,
    quiet: bool,
    verbose: bool,
) -> "tuple[Answer, bool]":
    from ikeanalyze.model.esp_algorithms import suite
    from ikeanalyze.render.overhead import Answer

    if suites is not None and len(suites) > 1:
        raise typer.BadParameter("one suite at most goes with --from", param_hint="--suite")
    check_inputs([source], output, key_files)
    protection = suite(suites[0]) if suites else None
    start = time.perf_counter()
    esp_keys, skipped = _keys(key_files or (), quiet=quiet)
    traffic = _read(source, port, esp_keys, quiet=quiet)
    if verbose:
        say(f"{traffic.capture.packets:,} packets read in {time.perf_counter() - start:.2f} s")
    if not quiet:
        for warning in traffic.capture.warnings:
            say(f"{source}: {warning}")
        for why in traffic.unusable_keys[:_FEW_KEYS]:
            say(why)
        if not traffic.sas:
            say(f"{source}: has no ESP packet")
    return Answer(measured=traffic, suite=protection), skipped


def _keys(paths: Sequence[str], *, quiet: bool) -> "tuple[list[EspKey], bool]":
    """The ESP keys of files, and whether one could not be read."""
    if not paths:
        return [], False
    from ikeanalyze.keys.files import KeyFileError, read_keys

    found: list[EspKey] = []
    skipped = False
    for path in paths:
        try:
            file = read_keys(path)
        except KeyFileError as error:
            say(str(error))
            skipped = True
            continue
        if not quiet:
            for warning in file.warnings[:_FEW_KEYS]:
                say(str(warning))
            if not file.esp:
                say(f"{path}: has no key of an ESP SA. Wireshark's esp_sa table has them")
        found += file.esp
    return found, skipped


def _read(source: str, port: list[int] | None, keys: "Sequence[EspKey]", *, quiet: bool) -> "EspTraffic":
    from ikeanalyze.analysis.esp_traffic import read_esp
    from ikeanalyze.capture.records import CaptureError
    from ikeanalyze.cli.progress import bar

    try:
        with bar(quiet=quiet) as progress:
            return read_esp(source, tuple(port or ()), progress, keys)
    except CaptureError as error:
        raise FailureError(str(error)) from None


def _draw(answer: "Answer", directory: str, *, paper: bool, quiet: bool) -> None:
    from ikeanalyze.render.figures.files import write_figures
    from ikeanalyze.render.figures.overhead import computed_figures, measured_figures, paper_figures

    if paper:
        drawn = paper_figures()
    elif answer.computed is not None:
        drawn = computed_figures(answer.computed)
    else:
        assert answer.measured is not None
        drawn = measured_figures(answer.measured)
    written = write_figures(directory, drawn)
    if not quiet:
        say(f"{directory}: {len(written)} files")
