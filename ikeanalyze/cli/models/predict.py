"""`ikeanalyze predict`: predict recorded handshakes on another link."""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Annotated, Any, Final, NoReturn, TypeVar

import typer
from msgspec import Struct, field

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.result import Analysis
from ikeanalyze.cli.capture_options import CaptureOptions, VantageOption, check_rtt, display_path, read_captures
from ikeanalyze.cli.exit_status import FAILED, SOME_SKIPPED, CommandError, log_stderr, refuse_option
from ikeanalyze.cli.options import MessageOptions, command, make_app
from ikeanalyze.cli.output_options import PageOptions, check_inputs
from ikeanalyze.cli.progress import make_progress_bar
from ikeanalyze.model.prediction.flow import HandshakeFlow
from ikeanalyze.model.prediction.layout import LayoutError
from ikeanalyze.model.prediction.link import (
    IkeTransport,
    LinkError,
    LinkModel,
    LossBurst,
    ResponseTrigger,
    validate_link,
)
from ikeanalyze.model.prediction.parameter_grid import ParameterGridError, expand_links, parse_value_list
from ikeanalyze.model.prediction.plausibility import find_warnings
from ikeanalyze.model.prediction.predict import Prediction, TransmissionConfig, predict_handshake
from ikeanalyze.model.prediction.processing_times import Computation
from ikeanalyze.model.prediction.scenarios import LinkScenarioError, load_scenario, parse_rate
from ikeanalyze.model.prediction.what_if.apply import apply_changes
from ikeanalyze.model.prediction.what_if.changes import (
    ChangeError,
    HandshakeChanges,
    parse_chain,
    parse_kem,
    parse_payload_change,
    parse_signature,
)
from ikeanalyze.model.retransmission_policy import PolicyError, parse_policy
from ikeanalyze.render import RenderOptions

#: Runs of one prediction, and of all predictions together: ten minutes of computation.
_RUN_LIMIT: Final = 1_000_000
_TOTAL_RUN_LIMIT: Final = 300_000_000
#: Options whose name differs from the field of `LinkModel`.
_LINK_OPTIONS: Final = {"aaa-rtt": "extra-aaa-rtt"}

Change = TypeVar("Change")

app = make_app()


class LinkOptions(Struct, frozen=True, kw_only=True):
    """The links that handshakes are predicted on."""

    rtt: Annotated[
        str | None,
        typer.Option(metavar="MS", help="Round-trip time in milliseconds, or a list: 10,50,600 or 0:600:50."),
    ] = None
    loss: Annotated[
        str | None, typer.Option(metavar="P", help="Share of lost frames in each direction: 0.2, or a list.")
    ] = None
    rate: Annotated[
        str | None, typer.Option(metavar="RATE", help="Bit/s: 384k, or 384k/7.2M from and to the initiator, or a list.")
    ] = None
    mtu: Annotated[
        str | None, typer.Option(metavar="BYTES", help="Largest IP packet, or a list (default: frames as recorded).")
    ] = None
    jitter: Annotated[
        str | None, typer.Option(metavar="MS", help="Maximum deviation of the one-way delay: a value or a list.")
    ] = None
    burst: Annotated[
        str | None, typer.Option(metavar="LENGTH", help="Mean length of loss bursts: 200ms, or 3 for frames.")
    ] = None
    burst_loss: Annotated[
        float | None, typer.Option(metavar="P", help="Share of lost frames in a burst (default: 1).")
    ] = None
    extra_aaa_rtt: Annotated[
        str | None, typer.Option(metavar="MS", help="Added to each round trip to the AAA server: a value or a list.")
    ] = None
    drop_ip_fragments: Annotated[bool, typer.Option("--drop-ip-fragments", help="The path drops IP fragments.")] = False
    link: Annotated[
        list[str],
        typer.Option(
            metavar="NAME",
            help="A link by name, or a TOML file: geostationary, umts, epc-centralized-wifi, epc-distributed-hsdpa... "
            "The options above override its values. Repeatable.",
        ),
    ] = field(default_factory=list)

    def make_links(self) -> list[LinkModel]:
        """Return all combinations of the values, each checked."""
        lists = {
            "rtt_ms": _parse_numbers(self.rtt, "--rtt"),
            "loss": _parse_numbers(self.loss, "--loss"),
            "jitter_ms": _parse_numbers(self.jitter, "--jitter"),
            "aaa_rtt_ms": _parse_numbers(self.extra_aaa_rtt, "--extra-aaa-rtt"),
            "mtu": _to_integers(_parse_numbers(self.mtu, "--mtu"), "--mtu"),
        }
        sweep: dict[str, Any] = {name: values for name, values in lists.items() if values}
        options: dict[str, Any] = {"drop_ip_fragments": True} if self.drop_ip_fragments else {}
        if burst := _parse_burst(self.burst, self.burst_loss):
            options["burst"] = burst
        links: list[LinkModel] = []
        for scenario, rates in product([_read_scenario(name) for name in self.link] or [{}], _parse_rates(self.rate)):
            if "rtt_ms" not in scenario and "rtt_ms" not in sweep:
                _refuse("--rtt", f"{scenario['name']} has no round-trip time" if scenario else "needed without --link")
            with refuse_option("--rtt", ParameterGridError):
                links += expand_links(LinkModel(**{"rtt_ms": 0.0, **scenario, **options, **rates}), sweep)
        for link in links:
            try:
                validate_link(link)
            except LinkError as error:
                prefix = f"{link.name}: " if link.name else ""
                _refuse(f"--{_LINK_OPTIONS.get(error.what, error.what)}", f"{prefix}{error}")
        return list(dict.fromkeys(links))


class TransmissionOptions(Struct, frozen=True, kw_only=True):
    """How the peers send over a link."""

    fragment_size: Annotated[
        int | None,
        typer.Option(
            metavar="BYTES",
            min=0,
            max=65535,
            help="Largest packet of an IKE fragment (RFC 7383); 0: IP fragments instead (default: as recorded, or smaller "
            "to fit the MTU).",
        ),
    ] = None
    retransmission_policy: Annotated[
        list[str],
        typer.Option(
            metavar="POLICY",
            help="strongswan, libreswan, exponential, with parameters as in strongswan:timeout=2,tries=3, or a TOML file. "
            "Repeatable.",
        ),
    ] = field(default_factory=lambda: ["strongswan"])
    transport: Annotated[
        list[IkeTransport],
        # Typer would show the type, as <list[udp|tcp]>
        typer.Option(metavar="<udp|tcp>", help="Transport: udp, or tcp as in RFC 9329. Repeatable."),
    ] = field(default_factory=lambda: [IkeTransport.UDP])
    responder_retransmit_trigger: Annotated[
        ResponseTrigger,
        typer.Option(
            help="What part of a retransmitted request makes the responder retransmit its response: first-fragment (RFC "
            "7383) or all-fragments (old strongSwan)."
        ),
    ] = ResponseTrigger.FIRST
    until_established: Annotated[
        bool,
        typer.Option(
            "--until-established",
            help="The initiator attempts a failed handshake again until it succeeds, at most 100 times. Times and bytes of "
            "all attempts add up.",
        ),
    ] = False

    def make_configs(self) -> list[TransmissionConfig]:
        """Return all combinations of policies and transports."""
        configs = []
        for text in dict.fromkeys(self.retransmission_policy):
            with refuse_option("--retransmission-policy", PolicyError):
                policy = parse_policy(text)
            # policies of one kind are distinguished by their parameters
            if len(self.retransmission_policy) > 1 and ":" in text:
                policy = replace(policy, name=text)
            for transport in dict.fromkeys(self.transport):
                trigger, size = self.responder_retransmit_trigger, self.fragment_size
                configs.append(TransmissionConfig(policy, transport, trigger, size, self.until_established))
        return configs


class SimulationOptions(Struct, frozen=True, kw_only=True):
    """How a handshake is simulated."""

    runs: Annotated[int, typer.Option(metavar="N", min=1, max=_RUN_LIMIT, help="Number of simulated handshakes.")] = (
        10_000
    )
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Random seed.")] = 1
    computation: Annotated[
        Computation,
        typer.Option(
            help="Processing times of a simulated handshake: sample (of a random recorded handshake that is comparable), "
            "median (of all of these), or one (of the handshake whose messages are sent)."
        ),
    ] = Computation.SAMPLE
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="MS", help="Report the share of handshakes that are set up within these times: 50,100,150,300."
        ),
    ] = None

    def parse_budgets(self) -> tuple[float, ...]:
        """Return the times in milliseconds."""
        budgets = _parse_numbers(self.budget, "--budget")
        for ms in budgets:
            if ms <= 0:
                _refuse("--budget", f"{ms:g} is not a time in milliseconds")
        return budgets


class RecordingOptions(CaptureOptions, frozen=True, kw_only=True):
    """How the captures of the handshakes are read."""

    handshake: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of the handshake, if there is one capture; its processing times alone are used (default: the first with "
            "the fewest retransmissions).",
        ),
    ] = None
    recorded_rtt: Annotated[
        float | None,
        typer.Option(
            metavar="MS",
            help="Round-trip time of the link during recording; it is subtracted from the processing times.",
        ),
    ] = None
    vantage: VantageOption = None


class WhatIfOptions(Struct, frozen=True, kw_only=True):
    """Changes of what the handshake sends."""

    signature: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Signatures and certificates of another algorithm: ml-dsa-65, slh-dsa-sha2-128s... Needs --keys, as the "
            "other changes of encrypted messages.",
        ),
    ] = None
    kem: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Another algorithm in all additional key exchanges, or in IKE_SA_INIT if there are none: ml-kem-1024, "
            "hqc-1...",
        ),
    ] = None
    add_kem: Annotated[
        list[str],
        typer.Option(
            metavar="NAME", help="An additional key exchange in an IKE_INTERMEDIATE exchange of its own. Repeatable."
        ),
    ] = field(default_factory=list)
    chain: Annotated[
        list[str],
        typer.Option(
            metavar="N", help="Number of certificates that are sent, or responder:N for one side. Repeatable."
        ),
    ] = field(default_factory=list)
    replace: Annotated[
        list[str],
        typer.Option(
            metavar="PAYLOAD=BYTES",
            help="Other size of the data of a payload: AUTH=3309, responder:CERT=5390. Repeatable.",
        ),
    ] = field(default_factory=list)
    add: Annotated[
        list[str],
        typer.Option(
            metavar="PAYLOAD=BYTES", help="One more payload in each message that has one of this name. Repeatable."
        ),
    ] = field(default_factory=list)

    def make_changes(self) -> HandshakeChanges:
        """Return the changes."""
        return HandshakeChanges(
            signature=None if self.signature is None else _parse_change(self.signature, "--signature", parse_signature),
            kem=None if self.kem is None else _parse_change(self.kem, "--kem", parse_kem),
            added_kems=tuple(_parse_change(text, "--add-kem", parse_kem) for text in self.add_kem),
            chains=tuple(_parse_change(text, "--chain", parse_chain) for text in self.chain),
            replaced=tuple(_parse_change(text, "--replace", parse_payload_change) for text in self.replace),
            added=tuple(_parse_change(text, "--add", parse_payload_change) for text in self.add),
        )


def _parse_change(text: str, option: str, parse: Callable[[str], Change]) -> Change:
    with refuse_option(option, ChangeError):
        return parse(text)


class PredictionOutputOptions(PageOptions, frozen=True, kw_only=True):
    """How predictions are written."""

    log_y: Annotated[
        bool, typer.Option("--log-y", help="Logarithmic axis of set-up time and bytes in figures over a varied option.")
    ] = False

    def get_view(self) -> RenderOptions:
        """Return the options of the formats."""
        return RenderOptions(every=self.no_limit, log_y=self.log_y)


@command(app, "CAPTURE... --rtt MS [OPTIONS]")
def predict(
    captures: Annotated[list[str], typer.Argument(metavar="CAPTURE...", hidden=True)],
    link: LinkOptions,
    transmission: TransmissionOptions,
    what_if: WhatIfOptions,
    simulation: SimulationOptions,
    inputs: RecordingOptions,
    output: PredictionOutputOptions,
    messages: MessageOptions,
) -> None:
    """Predict set-up time and bytes of recorded handshakes on another link.

    Takes one handshake of each capture: its messages, their fragments and sizes. The processing times of both sides and
    of the AAA server are those of all handshakes of the capture with the same messages. The handshake is sent over the
    given link in thousands of simulated runs, with the retransmission timers of a real stack. The result has the
    distributions of set-up time, bytes and messages, and the share of failures; also in closed form where there is one.

    Without --keys the success of a completely answered handshake is unknown. Handshakes known to have failed are not
    predicted.

    With lists, as in --loss 0:0.3:0.02 --rtt 10,600, all combinations are predicted.

    CAPTURE is a pcap or pcapng file, plain or compressed with gzip or zstd; - is standard input.
    """
    check_rtt(inputs.recorded_rtt, "--recorded-rtt")
    if inputs.handshake is not None and len(captures) > 1:
        _refuse("--handshake", "cannot be combined with several captures")
    links, configs, changes = link.make_links(), transmission.make_configs(), what_if.make_changes()
    simulation.parse_budgets()  # before the captures are read
    runs = len(captures) * len(links) * len(configs) * simulation.runs
    if runs > _TOTAL_RUN_LIMIT:
        _refuse("--runs", f"{runs:,} runs in total are too many; the limit is {_TOTAL_RUN_LIMIT:,}")
    named = {"--link": link.link, "--retransmission-policy": transmission.retransmission_policy}
    files = {option: [name for name in names if os.path.isfile(name)] for option, names in named.items()}
    check_inputs({"CAPTURE": captures, "--keys": inputs.keys, **files}, output.output)
    output.check()
    options = ReadOptions(
        vantage=inputs.vantage, rtt_ms=inputs.recorded_rtt, payloads=bool(changes), payload_sizes=bool(changes)
    )
    analysis = read_captures(captures, inputs, messages, options)
    flows = [_change_flow(flow, changes) for flow in _get_flows(analysis, inputs)]
    is_drawn = output.figures is not None or output.output_format == "html"
    predictions = _predict(flows, links, configs, simulation, is_drawn=is_drawn, quiet=messages.quiet)
    _print_warnings(predictions, messages)
    # imported here because it loads polars, after which the capture reader cannot fork
    from ikeanalyze.render.prediction.formats import FORMATS, write_prediction_figures

    output.write(FORMATS, predictions)
    output.write_figures(partial(write_prediction_figures, log_y=output.log_y), predictions, messages)
    if len(flows) < len(analysis.captures) or analysis.skipped:
        raise typer.Exit(SOME_SKIPPED)


def _predict(
    flows: list[HandshakeFlow],
    links: list[LinkModel],
    configs: list[TransmissionConfig],
    simulation: SimulationOptions,
    *,
    is_drawn: bool,
    quiet: bool,
) -> list[Prediction]:
    budgets = simulation.parse_budgets()
    total = len(flows) * len(links) * len(configs)
    keep = False
    if is_drawn:
        from ikeanalyze.render.prediction.figures import MAX_COLOURS  # loads Altair, which few predictions need

        keep = total <= MAX_COLOURS
    predictions = []
    with make_progress_bar(quiet=quiet, label="predicting", counts=True) as report:
        for flow, config, link in product(flows, configs, links):
            try:
                predictions.append(
                    predict_handshake(
                        flow,
                        link,
                        config,
                        runs=simulation.runs,
                        seed=simulation.seed,
                        keep=keep,
                        computation=simulation.computation,
                        budgets_ms=budgets,
                    )
                )
            except LayoutError as error:
                raise CommandError(f"{flow.capture}: {error}") from None
            if report is not None:
                report(len(predictions), total)
    return predictions


def _get_flows(analysis: Analysis, inputs: RecordingOptions) -> list[HandshakeFlow]:
    """Return a handshake of each capture that has one; exit with status 1 if none has one."""
    # imported here because it loads polars, after which the capture reader cannot fork
    from ikeanalyze.model.prediction.extract import FlowError, extract_flow

    captures = [summary.path for summary in analysis.captures]
    flows = []
    for path in captures:
        try:
            flow = extract_flow(analysis, path, inputs.handshake)
        except FlowError as error:
            if inputs.handshake is not None:
                _refuse("--handshake", str(error))
            log_stderr(f"{display_path(path)}: {error}")
            continue
        flows.append(flow)
    if not flows:
        raise typer.Exit(FAILED)
    return flows


def _change_flow(flow: HandshakeFlow, changes: HandshakeChanges) -> HandshakeFlow:
    try:
        return apply_changes(flow, changes) if changes else flow
    except (ChangeError, LayoutError) as error:
        raise CommandError(f"{display_path(flow.capture)}: {error}") from None


def _print_warnings(predictions: list[Prediction], messages: MessageOptions) -> None:
    """Warn of what may make the predictions wrong."""
    for warning in find_warnings(predictions):
        messages.remark(f"{display_path(warning.capture)}: {warning.message}")


def _read_scenario(name: str) -> dict[str, Any]:
    with refuse_option("--link", LinkScenarioError):
        return dict(load_scenario(name).fields)


def _parse_numbers(text: str | None, option: str) -> tuple[float, ...]:
    with refuse_option(option, ParameterGridError):
        return () if text is None else parse_value_list(text)


def _to_integers(values: tuple[float, ...], option: str) -> tuple[int, ...]:
    for value in values:
        if value != int(value):
            _refuse(option, f"{value:g} is not a whole number")
    return tuple(map(int, values))


def _parse_rates(text: str | None) -> list[dict[str, float]]:
    if text is None:
        return [{}]
    rates = []
    for part in text.split(","):
        up, slash, down = part.replace("bit/s", "bps").partition("/")
        with refuse_option("--rate", LinkScenarioError):
            rates.append({"rate_up": parse_rate(up), "rate_down": parse_rate(down if slash else up)})
    return rates


def _parse_burst(text: str | None, loss: float | None) -> LossBurst | None:
    """Parse `200ms`, or a number of frames."""
    if text is None:
        if loss is not None:
            _refuse("--burst-loss", "needs --burst")
        return None
    stripped = text.strip()
    try:
        mean = float(stripped.removesuffix("ms"))
    except ValueError:
        _refuse("--burst", f"{text!r} is not the length of a burst, such as 200ms, or 3 for frames")
    return LossBurst(mean, not stripped.endswith("ms"), 1.0 if loss is None else loss)


def _refuse(option: str, problem: str) -> NoReturn:
    raise typer.BadParameter(problem, param_hint=option)
