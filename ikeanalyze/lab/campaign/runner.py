"""Runs planned cases: in this process one after another, or several at once, each in a process of its own.

When fewer cases than processes are left, another process begins a part of the case that needs the longest. Interleaved
cases have a process each, too, and take turns: one handshake runs at a time, the k-th of each case before the next of
any. So a machine whose speed changes over minutes slows all of them alike.
"""

import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Final, Protocol

from ikeanalyze.lab import LabError
from ikeanalyze.lab.campaign.plan import CasePlan
from ikeanalyze.lab.campaign.worker import COMMAND, WorkerMessage, WorkerTask
from ikeanalyze.lab.manifest import RecordedLabHandshake
from ikeanalyze.lab.network.namespaces import block_signals, die_with, remove_dead_runs
from ikeanalyze.lab.run.case_run import CaseInterrupted, CasePart, run_case

#: The daemons of interleaved cases run all the time, each with some 30 MB.
MAX_INTERLEAVED: Final = 40
#: A case is divided if its remaining handshakes take longer: starting daemons takes some seconds.
_DIVIDE_SECONDS: Final = 20.0
#: Interval between checks for cases that could be divided.
_POLL_SECONDS: Final = 1.0
#: For workers to store their results after a signal.
_STOP_SECONDS: Final = 30.0


class CampaignObserver(Protocol):
    """Gets the results of a campaign as they come."""

    def show_handshake(self, plan: CasePlan, handshake: RecordedLabHandshake) -> None:
        """A handshake is recorded."""

    def show_recording(self, manifest: Path) -> None:
        """A part of a case is stored."""

    def show_interrupted(self, plan: CasePlan, manifest: Path) -> None:
        """A signal ended a part, which is stored."""

    def show_failure(self, plan: CasePlan, error: str) -> None:
        """A case failed; others go on."""


def run_campaign(plans: Sequence[CasePlan], jobs: int, observer: CampaignObserver, *, interleave: bool = False) -> None:
    """Run the missing handshakes of all cases, `jobs` parts at once; or all cases in turns, regardless of `jobs`.

    Raises:
        LabError: too many cases to interleave.
        KeyboardInterrupt: after the results have been stored.
    """
    if interleave and len(plans) > MAX_INTERLEAVED:
        raise LabError(f"at most {MAX_INTERLEAVED} cases can be interleaved; there are {len(plans)}")
    for plan in plans:
        for manifest in plan.recordings:
            observer.show_recording(manifest)
    if jobs > 1 or interleave:
        _WorkerPool(list(plans), len(plans) if interleave else jobs, observer, interleave).run()
        return
    for plan in plans:
        if plan.missing:
            _run_here(plan, observer)


def _run_here(plan: CasePlan, observer: CampaignObserver) -> None:
    part = CasePart(plan.take_numbers(), plan.open_part())
    try:
        path = run_case(
            plan.case,
            plan.out,
            part=part,
            on_handshake=lambda *shown: observer.show_handshake(plan, shown[-1]),
        )
    except CaseInterrupted as interrupted:
        observer.show_interrupted(plan, interrupted.manifest)
        raise
    except LabError as error:
        observer.show_failure(plan, str(error))
    else:
        observer.show_recording(path)


@dataclass(slots=True, eq=False)
class _Worker:
    """A process that records a part of a case."""

    plan: CasePlan
    process: subprocess.Popen[bytes]
    connection: Connection
    began: float | None = None  # its first handshake, after warm-ups


@dataclass(slots=True)
class _CaseWork:
    """What a case has taken so far."""

    began: bool = False
    failed: bool = False
    handshakes: int = 0
    seconds: float = 0.0  # of the workers that have ended


@dataclass(slots=True)
class _WorkerPool:
    plans: list[CasePlan]
    jobs: int
    observer: CampaignObserver
    interleaved: bool
    _workers: list[_Worker] = field(default_factory=list)
    _waiting: deque[_Worker] = field(default_factory=deque)  # interleaved ones that want a turn, the next one first
    _work: dict[str, _CaseWork] = field(default_factory=dict)  # by case

    def run(self) -> None:
        self._work = {plan.case.name: _CaseWork() for plan in self.plans}
        with self._ended_workers():
            try:
                self._run_all()
            except KeyboardInterrupt as signalled:
                name = signalled.args[0] if signalled.args else "SIGINT"
                for worker in self._workers:
                    worker.process.send_signal(signal.Signals[name])
                deadline = time.monotonic() + _STOP_SECONDS
                while self._workers and time.monotonic() < deadline:
                    self._handle_messages()
                raise

    def _run_all(self) -> None:
        while True:
            while len(self._workers) < self.jobs and (plan := self._choose()):
                self._start(plan)
            if not self._workers:
                return
            self._handle_messages()

    def _choose(self) -> CasePlan | None:
        """Return the case that needs another worker most, if any."""
        waiting = [plan for plan in self.plans if plan.missing and not self._work[plan.case.name].failed]
        for plan in waiting:
            if not self._work[plan.case.name].began:
                return plan
        if self.interleaved:
            return None
        longest = max(waiting, key=self._estimate_seconds, default=None)
        return longest if longest and self._estimate_seconds(longest) > _DIVIDE_SECONDS else None

    def _estimate_seconds(self, plan: CasePlan) -> float:
        """Return how long the handshakes that have not begun will take with the present workers."""
        work, now = self._work[plan.case.name], time.monotonic()
        workers = [worker for worker in self._workers if worker.plan is plan]
        running = [now - worker.began for worker in workers if worker.began is not None]
        per_handshake = (work.seconds + sum(running)) / max(work.handshakes, 1)
        return per_handshake * plan.count_missing() / max(len(workers), 1)

    def _start(self, plan: CasePlan) -> None:
        self._work[plan.case.name].began = True
        ours, theirs = Pipe()
        command = [*COMMAND, str(theirs.fileno())]
        with theirs, block_signals():
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                preexec_fn=partial(die_with, os.getpid()),
                start_new_session=True,  # Ctrl-C goes to us only
            )
            self._workers.append(_Worker(plan, process, ours))
        first, at_once = (None, 1) if self.interleaved else (plan.missing.popleft(), self.jobs)
        ours.send(WorkerTask(plan.case, plan.open_part(), first, at_once, self.interleaved))

    def _handle_messages(self) -> None:
        by_connection = {worker.connection: worker for worker in self._workers}
        for connection in wait(list(by_connection), _POLL_SECONDS):
            worker = by_connection[connection]  # type: ignore[index]  # these are all Connections
            try:
                message: WorkerMessage = worker.connection.recv()
            except (EOFError, OSError):
                status = worker.process.wait()
                message = WorkerMessage("failed", error=f"its process ended by itself with status {status}")
            self._handle(worker, message)
            if self._waiting:
                self._pass_turn()

    def _pass_turn(self) -> None:
        """Let the next interleaved worker run a handshake, if all of them wait; none with a number left: end all."""
        if len(self._waiting) < len(self._workers):
            return
        for worker in self._waiting:
            if worker.plan.missing:
                self._waiting.remove(worker)
                self._send_number(worker)
                return
        while self._waiting:
            self._send_number(self._waiting.popleft())

    def _send_number(self, worker: _Worker) -> None:
        """Send the number of the next handshake, or None if there is none."""
        plan = worker.plan
        number = plan.missing.popleft() if plan.missing and not self._work[plan.case.name].failed else None
        with suppress(OSError):
            worker.connection.send(number)

    def _handle(self, worker: _Worker, message: WorkerMessage) -> None:
        plan, work = worker.plan, self._work[worker.plan.case.name]
        if message.kind == "started":
            worker.began = time.monotonic()
            return
        if message.kind == "next":
            if self.interleaved:
                self._waiting.append(worker)
            else:
                self._send_number(worker)
            return
        if message.kind == "handshake" and message.handshake:
            work.handshakes += not message.handshake.warm_up
            self.observer.show_handshake(plan, message.handshake)
            return
        self._workers.remove(worker)
        with suppress(ValueError):  # interrupted while it waited for its turn
            self._waiting.remove(worker)
        worker.process.wait()
        worker.connection.close()
        work.seconds += time.monotonic() - (worker.began or time.monotonic())
        if message.kind == "failed":
            work.failed = True
            self.observer.show_failure(plan, message.error)
        elif message.path and message.kind == "interrupted":
            self.observer.show_interrupted(plan, message.path)
        elif message.path:
            self.observer.show_recording(message.path)

    @contextmanager
    def _ended_workers(self) -> Iterator[None]:
        """Kill the workers that are left, and remove their folders."""
        try:
            yield
        finally:
            with block_signals():
                for worker in self._workers:
                    worker.process.kill()
                    worker.process.wait()
                    worker.connection.close()
                if self._workers:
                    remove_dead_runs()
