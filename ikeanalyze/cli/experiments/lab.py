"""`ikeanalyze lab`: run scenarios with real daemons and record them."""

import signal
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ikeanalyze.cli.exit_status import FAILED, CommandError, fail_command, log_stderr, print_result
from ikeanalyze.cli.options import MessageOptions, SetOption, command, make_app
from ikeanalyze.cli.progress import ShowProgress, make_progress_bar
from ikeanalyze.lab import LabError, debian_tree
from ikeanalyze.lab.campaign.plan import CasePlan, plan_cases
from ikeanalyze.lab.campaign.runner import run_campaign
from ikeanalyze.lab.daemons.registry import check_stacks
from ikeanalyze.lab.machine import check_requirements, list_missing_trees
from ikeanalyze.lab.manifest import RecordedLabHandshake
from ikeanalyze.lab.matrix import InteropResult, format_matrix, list_installed_names, run_matrix
from ikeanalyze.lab.requirement import RequirementFinding
from ikeanalyze.lab.run.case_hosts import check_case
from ikeanalyze.lab.run.output_folder import exclusive_output_dir
from ikeanalyze.lab.scenario.case import ScenarioCase
from ikeanalyze.lab.scenario.expansion import LabScenarioError, load_cases, parse_override
from ikeanalyze.render.core.values import format_count

#: Requirements of this machine if the daemons run on others.
_NEEDED_FOR_SSH: Final = ("editcap", "vici")

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
    jobs: Annotated[int, typer.Option("-j", "--jobs", metavar="N", min=1, max=64, help="Cases to run at once.")] = 1,
    interleave: Annotated[
        bool,
        typer.Option("--interleave", help="Run the cases in turns, a handshake of each at a time, to compare costs."),
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Run only the handshakes that DIR lacks.")] = False,
    values: SetOption = [],  # noqa: B006
) -> None:
    """Run a scenario between real daemons and record it.

    Needs root, except over SSH. For each case of the scenario, DIR gets the capture (one interface per link) of the
    responder, of the initiator or of both, the logs of the daemons, the keys, and a manifest with the cost of each
    handshake and what the logs say was sent. Namespaces and daemons are removed at the end. Ctrl-C keeps the complete
    handshakes. The paths of the manifests go to standard output.

    A scenario is a TOML file; docs/lab.md lists its keys, which are all optional. An empty file is a handshake with a
    PSK over a link without delay; link.loss_percent = [0, 5, 20] is a case for each of three loss rates.

    Exit status: 0 all cases were run, whether or not their handshakes succeeded; 1 the lab lacks something, or a case
    failed; 2 wrong usage; 130 interrupted.
    """
    if interleave and jobs > 1:
        raise typer.BadParameter("runs one handshake at a time; --jobs is not possible", param_hint="--interleave")
    _end_like_ctrl_c()
    try:
        cases = [case.with_iterations(runs) for case in _load_cases(scenario, values)]
        over_ssh = [case.uses_ssh for case in cases]
        if any(over_ssh) and (jobs > 1 or interleave):
            raise LabError("--jobs and --interleave are not possible with initiator.host: a machine runs one case")
        _check_cases(cases)  # all of them, before the first one is run
        with exclusive_output_dir(Path(output)):
            plans = plan_cases(cases, Path(output), resume=resume)
            total = sum(plan.count_missing() for plan in plans)
            # lines and a bar on the same terminal would overwrite each other
            with make_progress_bar(quiet=messages.quiet or messages.verbose, label="handshakes", counts=True) as bar:
                display = _CampaignDisplay(scenario, messages, total, bar)
                run_campaign(plans, jobs, display, interleave=interleave)
    except LabError as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"{error.filename or 'the lab'}: {error.strerror or error}") from None
    if display.failed:
        raise typer.Exit(FAILED)


@dataclass(slots=True)
class _CampaignDisplay:
    """Shows a campaign: paths on standard output, a bar or lines on standard error."""

    scenario: str
    messages: MessageOptions
    total: int  # handshakes
    bar: ShowProgress | None
    done: int = 0
    failed: bool = False

    def show_handshake(self, plan: CasePlan, handshake: RecordedLabHandshake) -> None:
        """Advance the bar, or write a line."""
        self.done += not handshake.warm_up
        if self.bar:
            self.bar(self.done, self.total)
            return
        settings = plan.case.settings
        count = f"warm-up {handshake.number} of {settings.warm_up}"
        if not handshake.warm_up:
            count = f"{handshake.number} of {settings.iterations}"
        self.messages.remark(f"{plan.case.name}: {count}: {_describe(handshake)}")

    def show_recording(self, manifest: Path) -> None:
        """Print the path."""
        print_result(str(manifest))

    def show_interrupted(self, plan: CasePlan, manifest: Path) -> None:
        """Write where the results are."""
        self.messages.remark(f"{plan.case.name}: interrupted; partial results: {manifest}")

    def show_failure(self, plan: CasePlan, error: str) -> None:
        """Write the error, also if the command is quiet."""
        self.failed = True
        log_stderr(f"{self.scenario}: {plan.case.name}: {error}")


@command(app, "[SCENARIO.toml]... [OPTIONS]", "Check what the lab needs on this machine.")
def doctor(
    messages: MessageOptions,  # noqa: ARG001 - all commands have its options
    scenarios: Annotated[list[str], typer.Argument(metavar="[SCENARIO.toml]...", hidden=True)] = [],  # noqa: B006
) -> None:
    """Check what the lab needs on this machine, and how to get it.

    With scenarios, also whether each of their cases can be run here.

    Exit status: 0 if scenarios can be run (those given, if any), 1 if not.
    """
    rows = list(check_requirements())
    width = max(len(row.name) for row in rows)
    for row in rows:
        remedy = f" ({row.remedy})" if row.remedy else ""
        print_result(f"{_mark(row):8}{row.name:{width}}  {row.found}{remedy}")
    failed = not scenarios and any(row.needed and not row.there for row in rows)
    for scenario in scenarios:
        problems = list(_list_problems(scenario))
        for problem in problems:
            log_stderr(problem)
            failed = True
        if not problems:
            cases = format_count(len(load_cases(Path(scenario))), "case")
            print_result(f"{'ok':8}{'scenario':{width}}  {scenario}: {cases}")
    if failed:
        raise typer.Exit(FAILED)


@command(app, "[OPTIONS]", "Make Debian chroots with the missing daemons.")
def prepare(messages: MessageOptions) -> None:  # noqa: ARG001 - all commands have its options
    """Make Debian chroots that provide the daemons this machine lacks.

    They have strongSwan 6, FreeRADIUS and hostapd, strongSwan 5.9, libreswan, and OpenIKED. Needs root, debootstrap and
    a mirror that apt is configured for; half a minute and 160 to 240 MB for each chroot, in ~/.cache/ikeanalyze or
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
    ECP-256 alone. DIR gets the recording of each pair, as with `lab run`. Ctrl-C prints the rows of the pairs that were
    run.
    """
    _end_like_ctrl_c()
    _check_machine()
    results: list[InteropResult] = []

    def add(result: InteropResult) -> None:
        results.append(result)
        messages.remark(", ".join(filter(None, result.cells)))

    with fail_command(LabError), exclusive_output_dir(Path(output)):
        try:
            run_matrix(list_installed_names(), Path(output), add)
        finally:  # Ctrl-C as well: the pairs that were run
            if results:
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


def _list_problems(scenario: str) -> Iterator[str]:
    """Return a line for each case of a scenario that this machine cannot run, and for what it lacks for all of them."""
    try:
        cases = load_cases(Path(scenario))
    except LabError as error:
        yield str(error)
        return
    check = check_case
    try:
        _check_machine_for(cases)
    except CommandError as error:
        yield f"{scenario}: {error}"
        check = check_stacks  # the daemons may be what is missing
    for case in cases:
        try:
            check(case)
        except LabError as error:
            yield f"{scenario}: {case.name}: {error}"


def _load_cases(scenario: str, values: Sequence[str]) -> list[ScenarioCase]:
    """Return the cases of a scenario file with other values of keys, whose stacks support their settings."""
    try:
        overrides = dict(map(parse_override, values))
    except LabScenarioError as error:
        raise typer.BadParameter(str(error), param_hint="--set") from None
    cases = load_cases(Path(scenario), overrides)
    for case in cases:
        try:
            check_stacks(case)
        except LabError as error:
            raise LabError(f"{scenario}: {error}") from None
    return cases


def _check_cases(cases: Sequence[ScenarioCase]) -> None:
    """Check that this machine, and its daemons, can run the cases.

    Raises:
        LabError, CommandError: a case cannot be run, or something is missing.
    """
    _check_machine_for(cases)
    for case in cases:
        try:
            check_case(case)
        except LabError as error:
            raise LabError(f"{case.name}: {error}") from None


def _check_machine_for(cases: Sequence[ScenarioCase]) -> None:
    _check_machine(only=_NEEDED_FOR_SSH if all(case.uses_ssh for case in cases) else None)


def _check_machine(only: Collection[str] | None = None) -> None:
    for row in check_requirements():
        if row.needed and not row.there and (only is None or row.name in only):
            remedy = f": {row.remedy}" if row.remedy else ""
            raise CommandError(f"the lab lacks {row.name} ({row.found}){remedy}")


def _end_like_ctrl_c() -> None:
    """Let SIGTERM and a closed terminal clean up as Ctrl-C does."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as with nohup
            signal.signal(number, _interrupt)


def _interrupt(number: int, _: Any) -> None:
    """Interrupt the run once: a terminal that closes sends more than one signal."""
    for other in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)
    raise KeyboardInterrupt(signal.Signals(number).name)
