"""`ikeanalyze predict`: what recorded handshakes would take on another link."""

import os
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from ikeanalyze.cli.outcome import FAILED, SOME_SKIPPED, FailureError, job, say
from ikeanalyze.cli.progress import bar
from ikeanalyze.cli.reading import (
    Keys,
    Port,
    Quiet,
    VantageOption,
    Verbose,
    check_inputs,
    chosen_rtt,
    chosen_vantage,
    read,
)
from ikeanalyze.cli.writing import Figures, Output, check_figures, chosen_format

if TYPE_CHECKING:
    from ikeanalyze.analysis.result import Analysis
    from ikeanalyze.model.flow import Flow
    from ikeanalyze.model.link import Burst, Link
    from ikeanalyze.model.prediction import Prediction, Use
    from ikeanalyze.model.recorded import Place

#: Runs of one prediction, and of all together: ten minutes of work.
_MOST_RUNS: Final = 1_000_000
_MOST_TOGETHER: Final = 300_000_000
#: No path takes an hour; a manifest is a file that anybody may have changed.
_LONGEST_MS: Final = 3_600_000


def predict(
    captures: Annotated[list[str], typer.Argument(metavar="CAPTURE...", hidden=True)],
    rtt: Annotated[
        str | None,
        typer.Option("--rtt", metavar="MS", help="Round-trip time in milliseconds. As all lists: 10,50,600 or 0:600:50."),
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option("--loss", metavar="P", help="Share of the frames that are lost, in each direction: 0.2, or a list."),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option("--rate", metavar="RATE", help="Bit/s: 384k, or 384k/7.2M from the initiator and to it, or a list."),
    ] = None,
    mtu: Annotated[
        str | None,
        typer.Option("--mtu", metavar="BYTES", help="Largest IP packet, or a list; else frames are as they were recorded."),
    ] = None,
    jitter: Annotated[
        str | None,
        typer.Option("--jitter", metavar="MS", help="A message takes up to so much more or less, each way. A list."),
    ] = None,
    burst: Annotated[
        str | None,
        typer.Option("--burst", metavar="LENGTH", help="Losses come together, for 200ms or 3 frames on the average."),
    ] = None,
    burst_loss: Annotated[
        float | None, typer.Option("--burst-loss", metavar="P", help="Share that is lost within a burst; else 1.")
    ] = None,
    aaa_rtt: Annotated[
        str | None,
        typer.Option("--aaa-rtt", metavar="MS", help="Added to each round trip to the AAA server. A list."),
    ] = None,
    drop_ip_fragments: Annotated[
        bool, typer.Option("--drop-ip-fragments", help="Something on the path drops IP fragments.")
    ] = False,
    fragment_size: Annotated[
        int | None,
        typer.Option(
            "--fragment-size", metavar="BYTES", min=0, max=65535,
            help="Largest packet of an IKE fragment (RFC 7383); 0: IP fragments in their place. Else as recorded, "
            "and smaller if the MTU is.",
        ),
    ] = None,
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            "--scenario", metavar="NAME",
            help="A link by name, or a TOML file: geostationary, umts, epc-centralized-wifi, epc-distributed-hsdpa... "
            "The options above replace what it says. Can be repeated.",
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy", metavar="NAME",
            help="Retransmission timers: strongswan, libreswan, exponential, with parameters as in "
            "strongswan:timeout=2,tries=3, or a TOML file. Can be repeated.",
        ),
    ] = None,
    transport: Annotated[
        list[str] | None,
        typer.Option("--transport", metavar="NAME", help="udp, or tcp as in RFC 9329. Can be repeated."),
    ] = None,
    repeats: Annotated[
        str,
        typer.Option(
            "--repeats", metavar="WHAT",
            help="What of a repeated request makes the responder answer again: first-fragment (RFC 7383) or "
            "all-fragments (old strongSwan).",
        ),
    ] = "first-fragment",
    runs: Annotated[
        int, typer.Option("--runs", metavar="N", min=1, max=_MOST_RUNS, help="Simulated handshakes.")
    ] = 10_000,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of the random numbers.")] = 1,
    handshake: Annotated[
        int | None,
        typer.Option(
            "--handshake", metavar="N", min=1,
            help="The handshake of this number, of one capture; else the first that has the fewest retransmissions.",
        ),
    ] = None,
    recorded_rtt: Annotated[
        float | None,
        typer.Option(
            "--recorded-rtt", metavar="MS",
            help="Round-trip time that the captures were recorded with, to be told from computation.",
        ),
    ] = None,
    vantage: VantageOption = None,
    keys: Keys = None,
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="terminal, json, csv, markdown or html.")
    ] = "terminal",
    output: Output = "-",
    every: Annotated[
        bool, typer.Option("--all", help="All links in the terminal and markdown formats, not just 30.")
    ] = False,
    figures: Figures = None,
    port: Port = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:  # fmt: skip
    """Predict set-up time and bytes of recorded handshakes on another link.

    Takes one handshake of each capture: its messages, their fragments and sizes, what each side computed, what
    the AAA server took. Then sends it over the link that is described, in thousands of simulated runs, with the
    retransmission timers of a real stack, and says how set-up time, bytes and messages are distributed and how
    often the set-up fails; in closed form too, where there is one.

    Without --keys it cannot be read whether a handshake succeeded that was answered to its end; one that is
    known to have failed is not predicted.

    With lists, as in --loss 0:0.3:0.02 --rtt 10,600, all combinations are predicted.

    CAPTURE is a pcap or pcapng file, compressed with gzip or zstd or not; - is standard input.
    """
    with job(verbose=verbose):
        from ikeanalyze.render.prediction_formats import FORMATS

        chosen = chosen_format(FORMATS, form)
        side, path_rtt = chosen_vantage(vantage), chosen_rtt(recorded_rtt, "--recorded-rtt")
        if handshake is not None and len(captures) > 1:
            _refuse("--handshake", "it chooses from one capture; name one")
        lists = {
            "rtt_ms": _numbers(rtt, "--rtt"),
            "loss": _numbers(loss, "--loss"),
            "jitter_ms": _numbers(jitter, "--jitter"),
            "aaa_rtt_ms": _numbers(aaa_rtt, "--aaa-rtt"),
            "mtu": _whole(_numbers(mtu, "--mtu"), "--mtu"),
        }
        links = _links(scenario or [], lists, rate, _burst(burst, burst_loss), drop_ip_fragments)
        uses = _uses(policy or ["strongswan"], transport or ["udp"], repeats, fragment_size)
        together = len(captures) * len(links) * len(uses) * runs
        if together > _MOST_TOGETHER:
            _refuse("--runs", f"{together:,} runs together are too many; allowed are {_MOST_TOGETHER:,}")
        check_inputs(captures, output, keys)
        from ikeanalyze.render import Format, View
        from ikeanalyze.render.output import check

        check(output)
        check_figures(figures)
        analysis = read(captures, ports=port, vantage=side, rtt_ms=path_rtt, keys=keys, quiet=quiet, verbose=verbose)
        places = _places(captures) if side is None and path_rtt is None else {}
        flows, skipped = _flows(analysis, handshake, places, quiet=quiet)
        drawn = figures is not None or chosen is Format.HTML
        predictions = _predictions(flows, links, uses, runs, seed, drawn=drawn, quiet=quiet)
        FORMATS.write(predictions, chosen, output, View(every=every))
        if figures is not None:
            from ikeanalyze.render.figures import write_predictions

            written = write_predictions(predictions, figures)
            if not quiet:
                say(f"{figures}: {len(written)} files")
        if skipped or analysis.skipped:
            raise typer.Exit(SOME_SKIPPED)


def _predictions(
    flows: "list[Flow]",
    links: "list[Link]",
    uses: "list[Use]",
    runs: int,
    seed: int,
    *,
    drawn: bool,
    quiet: bool,
) -> "list[Prediction]":
    from ikeanalyze.model.layout import LayoutError
    from ikeanalyze.model.prediction import predict as predict_one
    from ikeanalyze.render.figures.prediction import COLOURED

    total = len(flows) * len(links) * len(uses)
    keep = drawn and total <= COLOURED
    found = []
    with bar(quiet=quiet, what="predicting", counts=True) as report:
        for flow, use, link in product(flows, uses, links):
            try:
                found.append(predict_one(flow, link, use, runs=runs, seed=seed, keep=keep))
            except LayoutError as error:
                raise FailureError(f"{flow.capture}: {error}") from None
            if report is not None:
                report(len(found), total)
    return found


def _places(captures: list[str]) -> "dict[str, Place]":
    """Where captures of the lab were taken, by their manifests beside them: always at the responder."""
    from ikeanalyze.dataset.finding import Listed
    from ikeanalyze.dataset.labels import LabelError, label
    from ikeanalyze.model.recorded import Place

    found = {}
    for path in captures:
        if path == "-":
            continue
        absolute = os.path.abspath(path)
        try:
            labels = label([Listed(path, absolute, 0, 0)], [], []).values
        except LabelError:
            continue  # not as the lab writes it
        rtt = labels.get(absolute, {}).get("link_rtt_ms")
        if isinstance(rtt, float | int) and 0 <= rtt < _LONGEST_MS:
            found[path] = Place("responder", round(rtt * 1_000_000))
    return found


def _flows(
    analysis: "Analysis", handshake: int | None, places: "Mapping[str, Place]", *, quiet: bool
) -> "tuple[list[Flow], bool]":
    """A handshake of each capture, and whether one had none; exit with status 1 if none has one."""
    from ikeanalyze.model.recorded import FlowError, recorded

    flows = []
    for summary in analysis.captures:
        try:
            flow = recorded(analysis, summary.path, handshake, places.get(summary.path))
        except FlowError as error:
            if handshake is not None:
                _refuse("--handshake", str(error))
            say(f"{_name(summary.path)}: {error}")
            continue
        if not quiet:
            _tell(flow)
        flows.append(flow)
    if not flows:
        raise typer.Exit(FAILED)
    return flows, len(flows) < len(analysis.captures)


def _tell(flow: "Flow") -> None:
    """What the capture leaves open, which moves the predicted times."""
    name = _name(flow.capture)
    if flow.path is None:
        say(
            f"{name}: it is not known on which side it was taken, so the path's own time counts as computation. "
            "--vantage says the side, --recorded-rtt the path's round-trip time"
        )
    elif flow.path == "estimated":
        say(
            f"{name}: its path's round-trip time is estimated from above, which makes computation look shorter. "
            "--recorded-rtt says it"
        )
    if flow.unknown:
        say(
            f"{name}: computation is not known where a retransmission was answered ({', '.join(flow.unknown)}); "
            "it counts as no time"
        )


def _name(path: str) -> str:
    return "standard input" if path == "-" else path


def _links(
    scenarios: list[str], lists: dict[str, Any], rate: str | None, burst: "Burst | None", drop: bool
) -> "list[Link]":
    """All links that are asked for, each checked."""
    from ikeanalyze.model.link import Link, LinkError, checked
    from ikeanalyze.model.sweep import SweepError, links

    chosen = [_scenario(name) for name in scenarios] or [{}]
    rates = _rates(rate) or [{}]
    found: list[Link] = []
    for fields in chosen:
        if "rtt_ms" not in fields and not lists["rtt_ms"]:
            name = fields.get("name")
            _refuse(
                "--rtt",
                f"{name} says no round-trip time" if name else "name the link by it, or by --scenario",
            )
        base: dict[str, Any] = {"rtt_ms": 0.0, **fields}
        if drop:
            base["drop_ip_fragments"] = True
        if burst is not None:
            base["burst"] = burst
        for both in rates:
            try:
                found += links(Link(**{**base, **both}), {field: some for field, some in lists.items() if some})
            except SweepError as error:
                _refuse("--rtt", str(error))
    for link in found:
        try:
            checked(link)
        except LinkError as error:
            where = f"{link.name}: " if link.name else ""
            _refuse(f"--{error.what}", f"{where}{error}")
    return list(dict.fromkeys(found))


def _scenario(name: str) -> dict[str, Any]:
    from ikeanalyze.model.scenarios import ScenarioError, read_scenario

    try:
        return dict(read_scenario(name).fields)
    except ScenarioError as error:
        _refuse("--scenario", str(error))


def _uses(policies: list[str], transports: list[str], repeats: str, fragment_size: int | None) -> "list[Use]":
    from ikeanalyze.model.link import Repeats, Transport
    from ikeanalyze.model.policy import PolicyError, read_policy
    from ikeanalyze.model.prediction import Use

    if repeats not in list(Repeats):
        _refuse("--repeats", f"there is no {repeats!r}; there are {', '.join(Repeats)}")
    found = []
    for text in dict.fromkeys(policies):
        try:
            policy = read_policy(text)
        except PolicyError as error:
            _refuse("--policy", str(error))
        # two of the same kind are told apart by what was asked for
        named = replace(policy, name=text) if len(policies) > 1 and ":" in text else policy
        for name in dict.fromkeys(transports):
            if name not in list(Transport):
                _refuse("--transport", f"there is no {name!r}; there are {', '.join(Transport)}")
            found.append(Use(named, Transport(name), Repeats(repeats), fragment_size))
    return found


def _numbers(text: str | None, option: str) -> tuple[float, ...]:
    from ikeanalyze.model.sweep import SweepError, numbers

    try:
        return () if text is None else numbers(text)
    except SweepError as error:
        _refuse(option, str(error))


def _whole(values: tuple[float, ...], option: str) -> tuple[int, ...]:
    for value in values:
        if value != int(value):
            _refuse(option, f"{value:g} is no whole number")
    return tuple(map(int, values))


def _rates(text: str | None) -> list[dict[str, float]]:
    from ikeanalyze.model.scenarios import ScenarioError, rate

    found = []
    for part in [] if text is None else text.split(","):
        up, slash, down = part.partition("/")
        try:
            found.append({"rate_up": rate(up), "rate_down": rate(down if slash else up)})
        except ScenarioError as error:
            _refuse("--rate", str(error))
    return found


def _burst(text: str | None, loss: float | None) -> "Burst | None":
    """`200ms`, or a number of frames."""
    from ikeanalyze.model.link import Burst

    if text is None:
        if loss is not None:
            _refuse("--burst-loss", "it needs --burst")
        return None
    stripped = text.strip()
    try:
        mean = float(stripped.removesuffix("ms"))
    except ValueError:
        _refuse("--burst", f"{text!r} is no length of a burst; one looks like 200ms, or 3 for frames")
    return Burst(mean, not stripped.endswith("ms"), 1.0 if loss is None else loss)


def _refuse(option: str, what: str) -> NoReturn:
    raise typer.BadParameter(what, param_hint=option)
