"""`ikeanalyze lab`: run scenarios with real daemons and record them."""

import signal
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from ikeanalyze.cli.exit_status import FAILED, CommandError, fail_command, print_result
from ikeanalyze.cli.options import MessageOptions, command, make_app
from ikeanalyze.lab import LabError, debian_tree
from ikeanalyze.lab.daemons.registry import check_stacks
from ikeanalyze.lab.machine import check_requirements, list_missing_trees
from ikeanalyze.lab.manifest import RecordedLabHandshake
from ikeanalyze.lab.matrix import format_matrix, list_installed_names, run_matrix
from ikeanalyze.lab.requirement import RequirementFinding
from ikeanalyze.lab.run import exclusive_output_dir, find_required_stacks, run_case
from ikeanalyze.lab.scenario import ScenarioCase, load_cases

app = make_app("Run scenarios with real daemons and record them.")


@command(app, "SCENARIO.toml -o DIR [OPTIONS]", "Run a scenario and record it.")
def run(
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO.toml", hidden=True)],
    output: Annotated[str, typer.Option("-o", "--output", metavar="DIR", help="Output directory.")],
    messages: MessageOptions,
    runs: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--runs",
            metavar="N",
            min=1,
            max=10_000,
            help="Handshakes of each case (default: as in the scenario).",
        ),
    ] = None,
) -> None:
    """Run a scenario between real daemons and record it.

    Needs root. For each case of the scenario, DIR gets the capture (one interface per link) of the responder, of the
    initiator or of both, the logs of the daemons, the keys, and a manifest with the cost of each handshake and what the
    logs say was sent. Namespaces and daemons are removed at the end, also after Ctrl-C. The paths of the manifests go
    to standard output.

    Exit status: 0 all cases were run, whether or not their handshakes succeeded; 1 the lab lacks something or failed;
    2 wrong usage.
    """
    # SIGTERM and a closed terminal clean up as Ctrl-C does
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as with nohup
            signal.signal(number, _interrupt)
    try:
        cases = _load_cases(scenario)
        _check_machine()
        for case in cases:
            find_required_stacks(case)  # all cases, before the first one is run
        with exclusive_output_dir(Path(output)):
            for case in cases:

                def report(number: int, count: int, handshake: RecordedLabHandshake, name: str = case.name) -> None:
                    messages.remark(f"{name}: {number} of {count}: {_describe(handshake)}")

                try:
                    path = run_case(case, Path(output), iterations=runs, on_handshake=report)
                except LabError as error:
                    raise CommandError(f"{scenario}: {case.name}: {error}") from None
                with suppress(BrokenPipeError):  # the captures are wanted even if the paths are not
                    print_result(str(path))
    except LabError as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"{error.filename or 'the lab'}: {error.strerror or error}") from None


@command(app, "[OPTIONS]", "Check what the lab needs on this machine.")
def doctor(messages: MessageOptions) -> None:  # noqa: ARG001 - all commands have its options
    """Check what the lab needs on this machine, and how to get it.

    Exit status: 0 if scenarios can be run, 1 if not.
    """
    rows = list(check_requirements())
    width = max(len(row.name) for row in rows)
    for row in rows:
        remedy = f" ({row.remedy})" if row.remedy else ""
        print_result(f"{_mark(row):8}{row.name:{width}}  {row.found}{remedy}")
    if any(row.needed and not row.there for row in rows):
        raise typer.Exit(FAILED)


@command(app, "[OPTIONS]", "Make Debian chroots with the missing daemons.")
def prepare(messages: MessageOptions) -> None:  # noqa: ARG001 - all commands have its options
    """Make Debian chroots that provide the daemons this machine lacks.

    They have strongSwan 6 and FreeRADIUS, strongSwan 5.9, libreswan, and OpenIKED. Needs root, debootstrap and a mirror
    that apt is configured for; half a minute and 160 to 400 MB for each chroot, in ~/.cache/ikeanalyze or
    IKEANALYZE_TREES. Existing chroots are kept. The paths go to standard output.
    """
    with fail_command(LabError):
        for spec in list_missing_trees():
            print_result(str(debian_tree.make_tree(spec)))


@command(app, "-o DIR [OPTIONS]", "Run a handshake between each pair of installed daemons.")
def matrix(
    output: Annotated[str, typer.Option("-o", "--output", metavar="DIR", help="Output directory.")],
    messages: MessageOptions,
) -> None:
    """Run a handshake between each pair of installed daemons, with a PSK and with RSA certificates.

    Needs root. Prints a Markdown table of what each pair did: which sides established the IKE SA, whether the initiator
    has a Child SA, the key exchange, and the reason of a failure. Each side proposes ML-KEM-768 if it supports it, and
    ECP-256 alone. DIR gets the recording of each pair, as with `lab run`.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)
    _check_machine()
    with fail_command(LabError), exclusive_output_dir(Path(output)):
        names = list_installed_names()
        results = run_matrix(names, Path(output), lambda result: messages.remark(", ".join(filter(None, result.cells))))
        print_result(format_matrix(results).rstrip("\n"))


def _mark(row: RequirementFinding) -> str:
    if row.there is None:
        return "?"
    return "ok" if row.there else "MISSING" if row.needed else "lacks"


def _describe(handshake: RecordedLabHandshake) -> str:
    """Return a short description of the result of a handshake."""
    if not handshake.established:
        return f"failed: {handshake.why}"
    parts = [f"{handshake.ms:.0f} ms"]
    if not handshake.child:
        parts.append(f"without a CHILD_SA ({handshake.why})")
    parts += [f"{step.what} failed: {step.why}" for step in handshake.steps if not step.done]
    return "; ".join(parts)


def _load_cases(scenario: str) -> list[ScenarioCase]:
    """Return the cases of a scenario file, whose stacks support their settings."""
    cases = load_cases(Path(scenario))
    for case in cases:
        try:
            check_stacks(case)
        except LabError as error:
            raise LabError(f"{scenario}: {error}") from None
    return cases


def _check_machine() -> None:
    for row in check_requirements():
        if row.needed and not row.there:
            remedy = f": {row.remedy}" if row.remedy else ""
            raise CommandError(f"the lab lacks {row.name} ({row.found}){remedy}")


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt
