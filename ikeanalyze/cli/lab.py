"""`ikeanalyze lab`: scenarios on live stacks of this machine, recorded."""

import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ikeanalyze.cli.outcome import FAILED, FailureError, job, say

if TYPE_CHECKING:
    from ikeanalyze.lab.machine import Finding
    from ikeanalyze.lab.manifest import Handshake

Verbose = Annotated[bool, typer.Option("--verbose", help="Tracebacks of internal errors.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]


def run(
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO.toml", hidden=True)],
    output: Annotated[str, typer.Option("-o", "--output", metavar="DIR", help="Where the captures go.")],
    iterations: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--iterations",
            metavar="N",
            min=1,
            max=10_000,
            help="Handshakes of each case, in place of the scenario's.",
        ),
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Run a scenario between real daemons, and record it.

    Needs root. For each case of the scenario DIR gets the capture (one interface per link, taken at the
    responder), the daemons' logs, the keys, and a manifest with what each handshake cost and what the logs say
    was sent. Everything is taken down again, also after Ctrl-C. The paths of the manifests go to standard output.

    Exit status: 0 all cases were run (however their handshakes ended), 1 the lab lacks something or failed, 2
    wrong usage.
    """
    with job(verbose=verbose):
        from ikeanalyze.lab import LabError
        from ikeanalyze.lab import output as folder
        from ikeanalyze.lab import scenario as scenarios

        # whoever ends us politely, or closes our terminal, gets the same tidying up as Ctrl-C
        for one in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(one) != signal.SIG_IGN:  # as after nohup
                signal.signal(one, _interrupt)
        try:
            cases = scenarios.load(Path(scenario))
            _check_machine()
            from ikeanalyze.lab.run import needs
            from ikeanalyze.lab.run import run as run_case

            for case in cases:
                needs(case)  # of the last one too, before the first is run
            with folder.claimed(Path(output)):
                for case in cases:

                    def tell(number: int, count: int, handshake: "Handshake", name: str = case.name) -> None:
                        if not quiet:
                            say(f"{name}: {number} of {count}: {_how(handshake)}")

                    try:
                        path = run_case(case, Path(output), iterations=iterations, tell=tell)
                    except LabError as error:
                        raise FailureError(f"{scenario}: {case.name}: {error}") from None
                    # whoever reads the paths may have had enough; the captures are wanted all the same
                    with suppress(BrokenPipeError):
                        _print(str(path))
        except LabError as error:
            raise FailureError(str(error)) from None
        except OSError as error:
            raise FailureError(f"{error.filename or 'the lab'}: {error.strerror or error}") from None


def doctor(verbose: Verbose = False) -> None:
    """Say what the lab has and lacks on this machine, and how to get it.

    Exit status: 0 if a scenario can be run, 1 if not.
    """
    with job(verbose=verbose):
        from ikeanalyze.lab.machine import findings

        rows = list(findings())
        width = max(len(row.name) for row in rows)
        for row in rows:
            mark = _mark(row)
            remedy = f" ({row.remedy})" if row.remedy else ""
            _print(f"{mark:8}{row.name:{width}}  {row.found}{remedy}")
        if any(row.needed and not row.there for row in rows):
            raise typer.Exit(FAILED)


def prepare(verbose: Verbose = False) -> None:
    """Make Debian trees with the stacks that this machine has not: strongSwan 6 and FreeRADIUS, strongSwan 5.9, libreswan.

    Needs root, debootstrap, and what apt has for a mirror; half a minute and 200 to 400 MB each, under
    ~/.cache/ikeanalyze or IKEANALYZE_TREES. What is there is left alone. Their paths go to standard output.
    """
    with job(verbose=verbose):
        from ikeanalyze.lab import LabError, machine, tree

        try:
            for one in machine.trees():
                _print(str(tree.make(one)))
        except LabError as error:
            raise FailureError(str(error)) from None


def _print(line: str) -> None:
    """One line on standard output, at once."""
    try:
        if sys.stdout is None:
            raise FailureError("there is no standard output")
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise FailureError(f"standard output cannot be written: {error.strerror}") from None


def _mark(row: "Finding") -> str:
    if row.there is None:
        return "?"
    return "ok" if row.there else "MISSING" if row.needed else "lacks"


def _how(handshake: "Handshake") -> str:
    """How it went, in a few words."""
    if not handshake.established:
        return f"failed: {handshake.why}"
    parts = [f"{handshake.ms:.0f} ms"]
    if not handshake.child:
        parts.append(f"without a CHILD_SA ({handshake.why})")
    parts += [f"{step.what} failed: {step.why}" for step in handshake.steps if not step.done]
    return "; ".join(parts)


def _check_machine() -> None:
    from ikeanalyze.lab.machine import findings

    for row in findings():
        if row.needed and not row.there:
            remedy = f": {row.remedy}" if row.remedy else ""
            raise FailureError(f"the lab lacks {row.name} ({row.found}){remedy}")


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Scenarios on live stacks of this machine, recorded."
)
app.command(options_metavar="SCENARIO.toml -o DIR [OPTIONS]", short_help="Run a scenario and record it.")(run)
app.command(options_metavar="[OPTIONS]", short_help="What the lab has and lacks on this machine.")(doctor)
app.command(options_metavar="[OPTIONS]", short_help="Make Debian trees with the daemons that are missing.")(prepare)
