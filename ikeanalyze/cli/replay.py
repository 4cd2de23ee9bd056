"""`ikeanalyze replay`: a recorded handshake taken to a live responder."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ikeanalyze.cli.outcome import FAILED, INTERRUPTED, FailureError, job, say
from ikeanalyze.cli.reading import Handshake, Keys, Port, Quiet, Verbose, check_inputs, read
from ikeanalyze.cli.writing import chosen_format

if TYPE_CHECKING:
    from ikeanalyze.model.policy import Policy
    from ikeanalyze.replay.faults import Fault
    from ikeanalyze.replay.perform import Order
    from ikeanalyze.replay.replayed import Mode, Replayed, Run
    from ikeanalyze.replay.target import Target

_WHICH: Final = "WHICH: a probability (0.2), IKE_AUTH, IKE_INTERMEDIATE:2/3... Can be repeated."


def replay(
    capture: Annotated[str, typer.Argument(metavar="CAPTURE", hidden=True)],
    target: Annotated[
        str,
        typer.Option("--target", metavar="ADDRESS[:PORT]", help="The responder; IPv6 with a port: [ADDRESS]:PORT."),
    ],
    mode: Annotated[str, typer.Option("--mode", metavar="MODE", help="verbatim, reenact or impair.")] = "verbatim",
    handshake: Handshake = None,
    runs: Annotated[int, typer.Option("--runs", metavar="N", min=1, max=10_000, help="How often.")] = 1,
    rate: Annotated[
        float, typer.Option("--rate", metavar="N", min=0.001, max=1000, help="Handshakes a second at most.")
    ] = 10.0,
    seconds: Annotated[
        float, typer.Option("--timeout", metavar="S", min=0.1, max=7200, help="Seconds of one run at most.")
    ] = 180.0,
    speed: Annotated[
        float,
        typer.Option("--speed", metavar="X", min=0.001, max=1e6, help="Verbatim: recorded gaps X times shorter."),
    ] = 1.0,
    wait: Annotated[
        float,
        typer.Option(
            "--wait", metavar="S", min=0.01, max=600, help="Verbatim: seconds to wait after the last message."
        ),
    ] = 2.0,
    mutate: Annotated[
        int | None,
        typer.Option(
            "--mutate",
            metavar="N",
            min=1,
            max=100_000,
            help="Verbatim: N recorded first messages with errors in them.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", min=0, help="For the same errors or faults again.")
    ] = None,
    credentials: Annotated[
        str | None,
        typer.Option("--credentials", metavar="FILE", help="TOML: secrets, keys, certificates, identities."),
    ] = None,
    keys: Keys = None,
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="POLICY",
            help="Retransmission: strongswan, libreswan, exponential:timeout=1,base=2,tries=5, or a TOML file.",
        ),
    ] = "strongswan",
    drop: Annotated[
        list[str] | None, typer.Option("--drop", metavar="WHICH", help=f"Impair: drop datagrams. {_WHICH}")
    ] = None,
    duplicate: Annotated[
        list[str] | None, typer.Option("--duplicate", metavar="WHICH", help="Impair: let them arrive twice.")
    ] = None,
    reorder: Annotated[
        list[str] | None,
        typer.Option("--reorder", metavar="WHICH", help="Impair: let the next one pass them."),
    ] = None,
    delay: Annotated[
        list[str] | None,
        typer.Option("--delay", metavar="WHICH", help="Impair: delay them, as IKE_AUTH:250ms."),
    ] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Recorded and live side by side.")] = False,
    write: Annotated[
        str | None,
        typer.Option(
            "-w",
            "--write",
            metavar="LIVE.pcapng",
            help="Where our own capture goes; its keys go to LIVE.keys.json.",
        ),
    ] = None,
    sockets: Annotated[
        bool, typer.Option("--sockets", help="Ordinary UDP sockets, though scapy could be used.")
    ] = False,
    nat_port: Annotated[
        int,
        typer.Option("--nat-port", metavar="N", min=1, max=65535, help="The target's port with the non-ESP marker."),
    ] = 4500,
    any_target: Annotated[
        bool, typer.Option("--any-target", help="Targets on the Internet too. Ask their owners.")
    ] = False,
    form: Annotated[str, typer.Option("--format", metavar="FORMAT", help="terminal or json.")] = "terminal",
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="PATH", help="A file to write to; - is standard output.")
    ] = "-",
    every: Annotated[bool, typer.Option("--all", help="All runs in the terminal format, not just 30.")] = False,
    port: Port = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Take a recorded handshake to a live responder, and say what it answers.

    verbatim sends the initiator's messages as they were recorded, with the recorded gaps: IKE_SA_INIT with a new
    SPIi and nonce, all else bit by bit. reenact makes a live handshake of the same shape, with fresh keys. impair
    does the same while datagrams get lost, doubled, reordered or late, by our own doing.

    Only loopback, private and link-local targets are talked to, one handshake at a time. With the right to
    (root, CAP_NET_RAW) scapy sends and receives IP packets, else ordinary UDP sockets do.

    Exit status: 0 done; 1 the target did not answer, or no live handshake was established (reenact, impair), or it did
    not survive mutated messages; 2 wrong usage.

    CAPTURE is a pcap or pcapng file, compressed with gzip or zstd or not.
    """
    with job(verbose=verbose), _terminated_as_interrupted():
        from ikeanalyze.render.replay_formats import FORMATS

        chosen = chosen_format(FORMATS, form)
        check_inputs([capture], output, [*(keys or ()), *([credentials] if credentials else ())])
        if capture == "-":
            raise typer.BadParameter("the capture is read twice: name a file", param_hint="CAPTURE")
        from ikeanalyze.render import View
        from ikeanalyze.render.output import check

        check(output)
        from ikeanalyze.replay.perform import Order

        order = Order(
            capture, _mode(mode), _target(target, any_target=any_target, nat_port=nat_port), _policy(policy),
            handshake, tuple(keys or ()), tuple(port or ()), runs, rate, seconds, speed, wait, mutate, seed,
            credentials, _faults({"drop": drop, "duplicate": duplicate, "reorder": reorder, "delay": delay}),
            sockets, compare, write,
        )  # fmt: skip
        _check(order)
        if write is not None:
            _check_write(order, write, output)
        replayed = _perform(order, quiet=quiet, verbose=verbose)
        FORMATS.write(replayed, chosen, output, View(every=every))
        if replayed.lost is not None:
            from ikeanalyze.render.output import cannot_write

            say(str(cannot_write(replayed.lost.path, replayed.lost.why, "-w")))
        if replayed.report is not None and not quiet:
            say(f"our capture can be read with: {replayed.report}")
        if replayed.interrupted:
            raise typer.Exit(INTERRUPTED)
        _end(replayed)
        if replayed.lost is not None and (write is not None or compare):
            raise typer.Exit(FAILED)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM is Ctrl-C here: the target is told to forget what stands, and our capture is kept."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _mode(text: str) -> "Mode":
    from ikeanalyze.replay.replayed import MODES

    for mode in MODES:
        if mode == text:
            return mode
    raise typer.BadParameter(f"there is no mode {text!r}; there are {', '.join(MODES)}", param_hint="--mode")


def _target(text: str, *, any_target: bool, nat_port: int) -> "Target":
    from ikeanalyze.replay.target import TargetError, read_target

    try:
        return read_target(text, any_target=any_target, nat_port=nat_port)
    except TargetError as error:
        raise typer.BadParameter(str(error), param_hint="--target") from None


def _policy(text: str) -> "Policy":
    from dataclasses import replace

    from ikeanalyze.model.policy import PolicyError, read_policy

    try:
        # its parameters are part of what has to be told
        return replace(read_policy(text), name=text)
    except PolicyError as error:
        raise typer.BadParameter(str(error), param_hint="--policy") from None


def _faults(given: dict[str, list[str] | None]) -> "tuple[Fault, ...]":
    from ikeanalyze.replay.faults import FaultError, What, read_fault

    found = []
    for name, texts in given.items():
        for text in texts or ():
            try:
                found.append(read_fault(What(name), text))
            except FaultError as error:
                raise typer.BadParameter(str(error), param_hint=f"--{name}") from None
    return tuple(found)


def _check(order: "Order") -> None:
    """What no option can tell for itself."""
    if order.mode != "verbatim" and order.credentials is None:
        raise typer.BadParameter(
            "a live handshake needs to know who it is: a TOML file, see docs/replay.md",
            param_hint="--credentials",
        )
    if order.mode != "verbatim" and order.mutants is not None:
        raise typer.BadParameter("it is for --mode verbatim", param_hint="--mutate")
    if order.mode != "impair" and order.faults:
        raise typer.BadParameter("it is for --mode impair", param_hint=f"--{order.faults[0].what}")
    if order.mutants is not None and order.compare:
        raise typer.BadParameter("there is nothing to compare mutated messages with", param_hint="--compare")


def _check_write(order: "Order", write: str, output: str) -> None:
    """Our own capture, and the keys to it, before anything is sent."""
    from ikeanalyze.render.output import check
    from ikeanalyze.replay.perform import keys_beside

    inputs = (order.capture, *order.keys, *([order.credentials] if order.credentials else ()))
    for ours in (write, keys_beside(write)):
        if write == "-" or (os.path.exists(ours) and not os.path.isfile(ours)):
            raise typer.BadParameter(f"our capture is read again: name a file ({ours} is none)", param_hint="-w")
        if any(_same(path, ours) for path in inputs):
            raise typer.BadParameter(f"{ours} is read, it would be overwritten", param_hint="-w")
        if output != "-" and _same(output, ours):
            raise typer.BadParameter(f"{ours} and -o are the same file", param_hint="-w")
        check(ours, option="-w")


def _same(one: str, other: str) -> bool:
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _perform(order: "Order", *, quiet: bool, verbose: bool) -> "Replayed":
    from ikeanalyze.capture.records import CaptureError
    from ikeanalyze.render.output import cannot_write
    from ikeanalyze.replay.credentials import CredentialsError
    from ikeanalyze.replay.perform import Listener, perform
    from ikeanalyze.replay.recording import RecordingError
    from ikeanalyze.replay.steps import CannotReplayError
    from ikeanalyze.replay.transport import TransportError

    def told(run: "Run") -> None:
        from ikeanalyze.render.replay_words import outcome

        if verbose and order.runs > 1:
            say(f"run {run.number:,} of {order.runs:,}: {outcome(run)}")

    analysis = read([order.capture], ports=order.ports, keys=order.keys, quiet=quiet, verbose=verbose)
    listener = Listener((lambda _: None) if quiet else say, told)
    try:
        return perform(order, analysis, listener)
    except (CaptureError, CannotReplayError, CredentialsError, TransportError) as error:
        raise FailureError(str(error)) from None
    except RecordingError as error:
        raise cannot_write(error.path, error.why, "-w") from None


def _end(replayed: "Replayed") -> None:
    """Say how it went, where it did not go well."""
    target = replayed.target
    if replayed.mutated is not None:
        if replayed.mutated.before.answer is None:
            raise FailureError(f"{target} does not answer an ordinary IKE_SA_INIT; no mutated message was sent")
        if not replayed.mutated.up:
            raise FailureError(f"{target} does not answer any more after the mutated messages")
        return
    if not any(_answered(run) for run in replayed.runs):
        counts = replayed.counts
        what = f"sends {counts.received:,} datagrams that answer nothing" if counts.received else "does not answer"
        if counts.refusal:
            what += f"; the network says: {counts.refusal}"
        if counts.stray:
            what += f"; {counts.stray:,} datagrams came from elsewhere, such as {counts.stray_from}"
        raise FailureError(f"{target} {what}{_ours(replayed)}")
    if replayed.mode != "verbatim" and not any(run.result and run.result.established for run in replayed.runs):
        run = replayed.runs[0]
        why = run.broken_off or (run.result.reason if run.result else None)
        raise FailureError(f"{target}: no IKE SA was established: {why}{_ours(replayed)}")


def _answered(run: "Run") -> bool:
    """Whether anything came that has to do with what was sent; of recorded messages, an answer to one of them."""
    if run.verbatim is not None:
        return any(sent.answers for sent in run.verbatim.sent)
    return run.traffic.received > 0


def _ours(replayed: "Replayed") -> str:
    """What we did ourselves that nothing came of it."""
    from ikeanalyze.render.values import count

    met = replayed.met
    return f"; faults of our own met {count(met.total(), 'datagram')} ({', '.join(sorted(met))})" if met else ""
