"""A process that records one part of a case for `runner`, which starts it with `COMMAND` and a file descriptor.

It gets a `WorkerTask`, and sends `WorkerMessage`s. It asks for the number of each further handshake, so that several
workers share a case.
"""

import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Literal

from ikeanalyze.lab import LabError
from ikeanalyze.lab.manifest import RecordedLabHandshake, RecordingFiles
from ikeanalyze.lab.run.case_run import CaseInterrupted, CasePart, run_case
from ikeanalyze.lab.scenario.case import ScenarioCase

#: Without `-m`, because classes of the module __main__ cannot be sent to another process.
COMMAND: Final = (sys.executable, "-c", f"from {__name__} import main; main()")


@dataclass(frozen=True, slots=True)
class WorkerTask:
    """What a worker records."""

    case: ScenarioCase
    files: RecordingFiles
    first: int | None  # number of its first handshake; None: it asks for it, too
    at_once: int  # parts that are recorded at the same time
    interleaved: bool  # whether the cases take turns


@dataclass(frozen=True, slots=True)
class WorkerMessage:
    """What a worker reports."""

    #: "started": begins its first handshake; "next": wants a number; "handshake": has one; the others end it.
    kind: Literal["started", "next", "handshake", "done", "failed", "interrupted"]
    handshake: RecordedLabHandshake | None = None
    path: Path | None = None  # of the manifest, if results are stored
    error: str = ""


def run_task(runner: Connection) -> None:
    """Record a part, and send the result."""
    task: WorkerTask = runner.recv()

    def ask_numbers() -> Iterator[int]:
        runner.send(WorkerMessage("started"))
        if task.first is not None:
            yield task.first
        while True:
            runner.send(WorkerMessage("next"))
            number: int | None = runner.recv()
            if number is None:
                return
            yield number

    def report(handshake: RecordedLabHandshake) -> None:
        runner.send(WorkerMessage("handshake", handshake))

    part = CasePart(ask_numbers(), task.files, task.at_once, task.interleaved)
    try:
        path = run_case(task.case, task.files.out, part=part, on_handshake=lambda *shown: report(shown[-1]))
        result = WorkerMessage("done", path=path)
    except CaseInterrupted as interrupted:
        result = WorkerMessage("interrupted", path=interrupted.manifest)
    except KeyboardInterrupt:
        result = WorkerMessage("interrupted")
    except LabError as error:
        result = WorkerMessage("failed", error=str(error))
    except OSError as error:
        result = WorkerMessage("failed", error=f"{error.filename or 'the lab'}: {error.strerror or error}")
    runner.send(result)


def _interrupt(number: int, _: Any) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


def main() -> None:
    """Run the task of the connection that the command line names."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    with Connection(int(sys.argv[1])) as runner:
        run_task(runner)
