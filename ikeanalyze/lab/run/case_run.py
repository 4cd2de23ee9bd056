"""Runs a case of a scenario, from its namespaces to its manifest."""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ikeanalyze.lab import LabError, host_info, manifest
from ikeanalyze.lab.manifest import RecordedLabHandshake, RecordingCut, RecordingFiles, RecordingWriter
from ikeanalyze.lab.network.namespaces import NetnsSandbox, block_signals
from ikeanalyze.lab.run.case_hosts import build_namespaces, connect_machines, find_required_stacks
from ikeanalyze.lab.run.running_case import RunningCase, start_case
from ikeanalyze.lab.scenario.case import ScenarioCase

#: Called after each handshake with its number, the number of handshakes, and its result.
ProgressCallback = Callable[[int, int, RecordedLabHandshake], None]

#: Between two checkpoints, and as a multiple of the time that the previous one took.
_CHECKPOINT_SECONDS: Final = 10.0
_CHECKPOINT_SHARE: Final = 20


@dataclass(frozen=True, slots=True)
class CasePart:
    """The handshakes of a case that one run of its daemons records."""

    numbers: Iterable[int]  # of the handshakes, taken one at a time
    files: RecordingFiles
    at_once: int = 1  # parts of this or other cases that are recorded at the same time
    interleaved: bool = False  # whether its handshakes take turns with those of other cases


class CaseInterrupted(KeyboardInterrupt):
    """Ctrl-C or a signal ended a case, and what it recorded is stored."""

    def __init__(self, manifest_path: Path) -> None:
        super().__init__()
        self.manifest = manifest_path


def run_case(
    case: ScenarioCase,
    out: Path,
    *,
    iterations: int | None = None,
    part: CasePart | None = None,
    on_handshake: ProgressCallback | None = None,
) -> Path:
    """Run a case and return the path of its manifest. Namespaces and processes are always removed.

    `out` exists and is locked by `exclusive_output_dir`. `iterations` overrides the scenario's, `part` both.

    Raises:
        LabError: a requirement is missing, does not start or ends early, or the results cannot be written. Earlier
            results are kept; the text has their path.
        CaseInterrupted: Ctrl-C, after the results of the complete handshakes have been stored. A second one raises
            KeyboardInterrupt, and what was not stored at a checkpoint is lost.
    """
    stacks, server = find_required_stacks(case)
    count = iterations or case.settings.iterations
    part = part or CasePart(range(1, count + 1), RecordingFiles(out, case.name))
    with NetnsSandbox() as sandbox:
        hosts = connect_machines(sandbox, case) if case.uses_ssh else build_namespaces(sandbox, case, stacks)
        running = start_case(sandbox, case, hosts, server)
        writer = RecordingWriter(case, part.files)
        rounds: list[Sequence[RecordedLabHandshake]] = []
        failure: LabError | None = None
        interrupted: str | None = None
        described = hosts.describe(server) | {"jobs": part.at_once, "interleaved": part.interleaved}
        try:
            for handshake in _record_handshakes(running, writer, part.numbers, described, rounds):
                if on_handshake:
                    on_handshake(handshake.number, count, handshake)
        except LabError as error:
            if not running.recording.alive and writer.has_checkpoint:
                kept = f"results until the latest checkpoint: {part.files.manifest}; --resume continues from there"
                raise LabError(f"{error}; {kept}") from error
            if not rounds or not running.recording.alive:
                raise
            failure = error
        except KeyboardInterrupt as signalled:
            if not rounds or not running.recording.alive:
                raise
            interrupted = f"interrupted by {signalled.args[0] if signalled.args else 'SIGINT'}"
        captures = running.abort() if interrupted else running.stop()
        recorded = replace(
            _describe_recording(running, rounds, described, captures),
            ended=str(failure) if failure else interrupted,
            # the handshake that a signal interrupted; that of a failure is kept for its analysis
            cut=running.find_cut(len(rounds)) if interrupted else None,
            unfinished=running.find_cut(len(rounds)) if failure else None,
        )
        if interrupted:  # at once, because keys and messages of large logs take seconds
            at_end = RecordingCut(time.time(), dict.fromkeys(running.logs))
            writer.save_checkpoint(replace(recorded, cut=recorded.cut or at_end))
        written = writer.finish(recorded)
        if failure:
            raise LabError(f"{failure}; partial results: {written}")
        if interrupted:
            raise CaseInterrupted(written)
        return written


def _record_handshakes(
    running: RunningCase,
    writer: RecordingWriter,
    numbers: Iterable[int],
    described: Mapping[str, Any],
    rounds: list[Sequence[RecordedLabHandshake]],
) -> Iterator[RecordedLabHandshake]:
    """Run the handshakes of each number, add them to `rounds`, and store them at checkpoints."""
    next_checkpoint = time.monotonic() + _CHECKPOINT_SECONDS
    for handshakes in running.run_rounds(numbers):
        rounds.append(handshakes)
        yield from handshakes
        if time.monotonic() >= next_checkpoint:
            cost = _save_checkpoint(running, writer, rounds, described)
            next_checkpoint = time.monotonic() + max(_CHECKPOINT_SECONDS, _CHECKPOINT_SHARE * cost)


def _describe_recording(
    running: RunningCase,
    rounds: Sequence[Sequence[RecordedLabHandshake]],
    described: Mapping[str, Any],
    captures: Mapping[str, Path],
) -> manifest.CaseRecording:
    """Stop the links, and return what is recorded of all rounds."""
    return manifest.CaseRecording(
        handshakes=list(itertools.chain.from_iterable(rounds)),
        ended=None,
        machine={**described, "ended": host_info.format_time(), "load_after": host_info.get_load()},
        links={
            name: {
                "by": link.kind,
                "frames": link.stop(),
                "receivers": running.count_received(name),
                "seed": running.seeds.get(name),
            }
            for name, link in running.emulators.items()
        },
        captures=captures,
        dropped=running.recording.dropped,
        logs=running.logs,
        cut=None,
    )


def _save_checkpoint(
    running: RunningCase,
    writer: RecordingWriter,
    rounds: Sequence[Sequence[RecordedLabHandshake]],
    described: Mapping[str, Any],
) -> float:
    """Store the handshakes whose frames are certainly in the capture's file; return the seconds that this took."""
    began = time.monotonic()
    count = running.count_settled(len(rounds))
    if count:
        checkpoint = manifest.CaseRecording(
            handshakes=list(itertools.chain.from_iterable(rounds[:count])),
            ended=None,
            machine=described,
            links={
                name: {"by": link.kind, "frames": {}, "receivers": None, "seed": running.seeds.get(name)}
                for name, link in running.emulators.items()
            },
            captures=running.recording.paths,
            dropped=None,
            logs=running.logs,
            cut=running.cuts[count],
        )
        with block_signals():
            writer.save_checkpoint(checkpoint)
    return time.monotonic() - began
