"""Stores the results of a case: capture, logs, keys and a manifest. Schema `ikeanalyze.lab/1`.

A case that runs for long is stored at checkpoints, so that a killed run leaves what it recorded: the logs grow by one
gzip member at each checkpoint, capture and manifest are replaced. `complete_checkpoint` then makes of it what an
interrupted run leaves.
"""

import gzip
import json
import os
import shutil
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import structs

from ikeanalyze.io.atomic_write import write_private
from ikeanalyze.io.lab_manifest import CAPTURE_SUFFIXES, LAB_SCHEMA
from ikeanalyze.keys.detect import KeyFileError, read_keys
from ikeanalyze.keys.export import build_key_json
from ikeanalyze.keys.key_set import EspKey, KeySet, Phase1Key
from ikeanalyze.lab import LabError
from ikeanalyze.lab.daemons.registry import get_stack
from ikeanalyze.lab.daemons.stack import LoggedKeys
from ikeanalyze.lab.logs import freeradius, hostapd
from ikeanalyze.lab.network.topology import AAA_ADDRESS
from ikeanalyze.lab.recording import cut_capture
from ikeanalyze.lab.scenario.case import ScenarioCase
from ikeanalyze.lab.scenario.settings import AKA, ROLES

_Key = TypeVar("_Key", KeySet, Phase1Key, EspKey)
#: Hosts with logs.
_HOSTS: Final = (*ROLES, "aaa")
#: Suffix of a file that is being written, to replace another one.
_TEMPORARY: Final = ".tmp"
#: `ended` of a checkpoint while its case runs, and after the run was killed.
_RUNNING: Final = "not finished: it runs, or was killed"
_KILLED: Final = "interrupted: the run was killed"


@dataclass(frozen=True, slots=True)
class ResourceCost:
    """Resources used by a daemon for one handshake."""

    user_ms: float  # processor time in user and kernel mode, with a resolution of about 10 ms
    system_ms: float
    processor_ms: float | None  # processor time of all threads from the scheduler; None: unknown
    rss_before_bytes: int  # resident set size before and after
    rss_after_bytes: int


@dataclass(frozen=True, slots=True)
class ActionResult:
    """Result of an action after a handshake."""

    what: str
    done: bool
    why: str | None
    counts: Mapping[str, Mapping[str, int]] | None = None  # packets `sent` and `received`, by direction


@dataclass(frozen=True, slots=True)
class RecordedLabHandshake:
    """One handshake, as seen by its initiator."""

    number: int
    established: bool  # whether the IKE SA was established
    child: bool  # whether the Child SA was established
    why: str | None  # the peer's error or the daemon's message on failure
    ms: float  # set-up time from the command to the daemon's answer, including the Child SA
    spi_i: str | None  # 16 hex digits each; None: no IKE SA
    spi_r: str | None
    costs: Mapping[str, ResourceCost]  # by host
    steps: Sequence[ActionResult]
    attempts: int = 1  # IKE SAs begun until it was established; the SPIs are those of the last one
    warm_up: bool = False  # run before those that count, with numbers of its own


@dataclass(frozen=True, slots=True)
class RecordingCut:
    """Where a recording ends: before the first handshake that is not in the manifest."""

    at_s: float  # frames from this time on are not kept; seconds since the epoch
    log_bytes: Mapping[str, int | None]  # by host, the bytes of the log until then; None: the log lags behind

    @property
    def document(self) -> dict[str, Any]:
        """The cut in a manifest."""
        return {"at_s": self.at_s, "log_bytes": dict(self.log_bytes)}


@dataclass(frozen=True, slots=True)
class CaseRecording:
    """Results of a case."""

    handshakes: Sequence[RecordedLabHandshake]
    ended: str | None  # why the case ended early; None: it did not
    machine: Mapping[str, Any]  # versions of the daemons, the kernel and ikeanalyze
    links: Mapping[str, Any]  # by link, its emulator and the emulator's counts
    captures: Mapping[str, Path]  # by the host at which they were taken
    dropped: int | None  # frames missing in the captures; None: unknown
    logs: Mapping[str, Path]  # the daemons' logs, by host
    cut: RecordingCut | None = None  # None: everything is kept
    unfinished: RecordingCut | None = None  # where a kept handshake begins that is not in `handshakes`


@dataclass(frozen=True, slots=True)
class RecordingFiles:
    """Paths of the files of a recording."""

    out: Path
    name: str  # of the case
    part: int = 1  # of the case

    @property
    def stem(self) -> str:
        """What the names of all files begin with."""
        return self.name if self.part == 1 else f"{self.name}.part{self.part}"

    @property
    def keys(self) -> Path:
        """The keys."""
        return self.out / f"{self.stem}.keys.json"

    @property
    def manifest(self) -> Path:
        """The manifest."""
        return self.out / f"{self.stem}.manifest.json"

    def get_capture(self, host: str) -> Path:
        """Return the path of the capture at a host."""
        return self.out / f"{self.stem}{CAPTURE_SUFFIXES[host]}.pcapng"

    def get_log(self, role: str) -> Path:
        """Return the path of a host's compressed log."""
        return self.out / f"{self.stem}.{role}.log.gz"

    def remove(self) -> None:
        """Remove all of them that exist."""
        captures = map(self.get_capture, CAPTURE_SUFFIXES)
        for path in (*captures, self.keys, self.manifest, *map(self.get_log, _HOSTS)):
            path.unlink(missing_ok=True)
            _get_temporary_path(path).unlink(missing_ok=True)


@dataclass(slots=True)
class RecordingWriter:
    """Writes the results of a case, at checkpoints and at the end. Files with keys are readable only for their owner.

    A failed or interrupted write leaves the files of the latest checkpoint, or none.
    """

    case: ScenarioCase
    files: RecordingFiles
    has_checkpoint: bool = False
    _copied: dict[str, int] = field(default_factory=dict)  # by host, bytes of the log that its copy has

    def save_checkpoint(self, recorded: CaseRecording) -> None:
        """Store what is recorded so far, up to the cut.

        Raises:
            LabError: a file cannot be written.
        """
        assert recorded.cut is not None
        self._write(recorded, is_checkpoint=True)
        self.has_checkpoint = True

    def finish(self, recorded: CaseRecording) -> Path:
        """Store the results; return the path of the manifest.

        Raises:
            LabError: a file cannot be written.
        """
        self._write(recorded, is_checkpoint=False)
        return self.files.manifest

    def _write(self, recorded: CaseRecording, *, is_checkpoint: bool) -> None:
        before = {role: _get_size(self.files.get_log(role)) for role in recorded.logs}
        copied = dict(self._copied)
        try:
            if not self.has_checkpoint:
                self.files.remove()
            for host, capture in recorded.captures.items():
                cut = None if is_checkpoint else recorded.cut
                _store_capture(capture, self.files.get_capture(host), cut)
            for role, log in recorded.logs.items():
                self._copied[role] = _append_log(log, copied.get(role, 0), self.files.get_log(role))
            document = _build_document(self.case, recorded, self.files)
            unfinished = recorded.cut if is_checkpoint else recorded.unfinished
            if unfinished:
                sizes = {role: _get_size(self.files.get_log(role)) for role in recorded.logs}
                document["checkpoint"] = unfinished.document | {"log_gz_bytes": sizes}
            if is_checkpoint:
                document["ended"] = _RUNNING
            else:
                _add_log_contents(document, self.case, self.files, recorded.cut)
            _replace_text(self.files.manifest, document)
        except BaseException as error:
            self._copied = copied
            self._roll_back(before)
            if isinstance(error, OSError):
                raise LabError(self._describe(error)) from None
            raise

    def _roll_back(self, log_sizes: Mapping[str, int]) -> None:
        """Restore the latest checkpoint, without need for disk space, or remove all files."""
        if not self.has_checkpoint:
            self.files.remove()
            return
        with suppress(OSError):
            for role, size in log_sizes.items():
                os.truncate(self.files.get_log(role), size)
            for path in (*map(self.files.get_capture, CAPTURE_SUFFIXES), self.files.manifest):
                _get_temporary_path(path).unlink(missing_ok=True)

    def _describe(self, error: OSError) -> str:
        path = str(error.filename2 or error.filename or self.files.out).removesuffix(_TEMPORARY)
        kept = f"; results until the latest checkpoint: {self.files.manifest}" if self.has_checkpoint else ""
        return f"{path}: {error.strerror}{kept}"


def complete_checkpoint(case: ScenarioCase, files: RecordingFiles) -> None:
    """Cut off what is not in the manifest of a killed or failed run, and add keys and log summaries.

    A manifest without `checkpoint` is left alone.

    Raises:
        LabError: a file cannot be read or written.
        KeyError, TypeError, ValueError: the manifest is not one of ours.
    """
    document = json.loads(files.manifest.read_text())
    checkpoint = document.pop("checkpoint", None)
    if checkpoint is None:
        return
    try:
        for role, size in checkpoint["log_gz_bytes"].items():
            os.truncate(files.get_log(role), size)
        cut = RecordingCut(checkpoint["at_s"], checkpoint["log_bytes"])
        for host in document["files"]["captures"]:
            _store_capture(files.get_capture(host), files.get_capture(host), cut)
        if document["ended"] == _RUNNING:
            document["ended"] = _KILLED
        _add_log_contents(document, case, files, cut)
        _replace_text(files.manifest, document)
    except OSError as error:
        raise LabError(f"{error.filename2 or error.filename or files.out}: {error.strerror}") from None


def _build_document(case: ScenarioCase, recorded: CaseRecording, files: RecordingFiles) -> dict[str, Any]:
    """Return the manifest, without keys and summaries of the logs."""
    return {
        "schema": LAB_SCHEMA,
        "name": case.name,
        "part": files.part,
        "scenario": encode_scenario(case),
        "certificates_sent": case.certificates_sent,
        "machine": dict(recorded.machine),
        "links": dict(recorded.links),
        "dropped": recorded.dropped,
        "files": {
            "capture": files.get_capture(case.capture_points[0]).name,
            "captures": {host: files.get_capture(host).name for host in recorded.captures},
            "logs": {role: files.get_log(role).name for role in recorded.logs},
            "keys": None,
        },
        "ended": recorded.ended,
        "handshakes": [asdict(handshake) for handshake in recorded.handshakes],
        "load": list_load(recorded.handshakes) if case.settings.initiators > 1 else None,
        "bytes_per_ike_sa": estimate_ike_sa_bytes(recorded.handshakes) if case.settings.keep else None,
        "expected": {},
    }


def list_load(handshakes: Sequence[RecordedLabHandshake]) -> list[dict[str, Any]]:
    """Return for each number how many handshakes at the same time succeeded, and how many per second."""
    rounds: dict[tuple[bool, int], list[RecordedLabHandshake]] = {}
    for handshake in handshakes:
        rounds.setdefault((handshake.warm_up, handshake.number), []).append(handshake)
    load = []
    for (warm_up, number), group in rounds.items():
        times = [handshake.ms for handshake in group if handshake.child]
        seconds = max(times) / 1e3 if times else None
        per_second = len(times) / seconds if seconds else None
        load.append(
            {
                "number": number,
                "warm_up": warm_up,
                "begun": len(group),
                "established": len(times),
                "seconds": seconds,
                "per_second": per_second,
            }
        )
    return load


def estimate_ike_sa_bytes(handshakes: Sequence[RecordedLabHandshake]) -> dict[str, float | None]:
    """Return by how many bytes the resident set of each daemon grows with each kept IKE SA and its Child SA.

    This is the slope of the least-squares line through the measured handshakes; None: fewer than two of them.
    """
    counts: dict[str, list[tuple[int, int]]] = {}  # by host, IKE SAs and bytes after each handshake
    kept = 0
    for handshake in handshakes:
        kept += handshake.established
        for host, cost in handshake.costs.items():
            points = counts.setdefault(host, [])
            if handshake.established and not handshake.warm_up:
                points.append((kept, cost.rss_after_bytes))
    return {
        host: statistics.linear_regression(*zip(*points, strict=True)).slope if len(points) > 1 else None
        for host, points in counts.items()
    }


def encode_scenario(case: ScenarioCase) -> dict[str, Any]:
    """Return the value of each key, as JSON has it. The conditions of a real link are unknown, and null."""
    values = {key: list(value) if isinstance(value, tuple) else value for key, value in case.values.items()}
    if case.uses_ssh:
        values |= {key: None for key in values if key.partition(".")[0] in ("link", "aaa_link")}
    return values


def _add_log_contents(
    document: dict[str, Any], case: ScenarioCase, files: RecordingFiles, cut: RecordingCut | None
) -> None:
    """Write the keys that the stored logs have; add them and the logs' messages to a manifest."""
    keys = _read_log_keys(case, files)
    if keys is not None:
        write_private(str(files.keys), keys)
        document["files"]["keys"] = files.keys.name
    for role in document["files"]["logs"]:
        lines = _read_lines(files.get_log(role), cut.log_bytes.get(role) if cut else None)
        document["expected"][role] = _parse_log(role, case, lines)


def _store_capture(source: Path, target: Path, cut: RecordingCut | None) -> None:
    """Replace a capture at once, because the manifest that exists describes the previous one."""
    if cut:
        cut_capture(source, _get_temporary_path(target), cut.at_s)
    else:
        shutil.copyfile(source, _get_temporary_path(target))
    _get_temporary_path(target).replace(target)


def _read_log_keys(case: ScenarioCase, files: RecordingFiles) -> str | None:
    """Return the keys of a daemon's log as JSON; None: no handshake got that far, or no log has keys."""
    role = max(ROLES, key=lambda role: get_stack(case.stack(role)).logged_keys)
    if get_stack(case.stack(role)).logged_keys is LoggedKeys.NONE:
        return None
    path = files.get_log(role)
    try:
        keys = read_keys(str(path))
    except KeyFileError:
        return None
    name = path.name
    return build_key_json(_set_origin(keys.key_sets, name), _set_origin(keys.phase1, name), _set_origin(keys.esp, name))


def _set_origin(keys: Sequence[_Key], path: str) -> list[_Key]:
    """Return the keys with the path of the stored log as origin."""
    return [structs.replace(key, origin=structs.replace(key.origin, path=path)) for key in keys]


def _parse_log(role: str, case: ScenarioCase, lines: Iterator[str]) -> dict[str, Any] | None:
    """Return the messages or packets of a daemon's log; None if it does not report them."""
    if role == "aaa":
        if case.settings.initiator.auth == AKA:
            packets = hostapd.parse_hostapd_log(lines, AAA_ADDRESS)
        else:
            packets = freeradius.parse_freeradius_log(lines)
        return {"packets": [asdict(packet) for packet in packets]}
    summary = get_stack(case.stack(role)).parse_log(lines)
    return summary.document() if summary else None


def _read_lines(log: Path, limit: int | None) -> Iterator[str]:
    """Return the lines of a compressed log, at most `limit` bytes."""
    left = limit
    with gzip.open(log) as lines:
        for line in lines:
            if left is not None:
                left -= len(line)
                if left < 0:
                    return
            yield line.decode(errors="replace")


def _append_log(source: Path, offset: int, target: Path) -> int:
    """Append the bytes of a log from `offset` on to its compressed copy; return the offset of the end."""
    # not readable for others, because logs have keys
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with source.open("rb") as plain, os.fdopen(descriptor, "ab") as raw:
        plain.seek(offset)
        # a file without members is not a gzip file
        if os.fstat(plain.fileno()).st_size > offset or not os.fstat(raw.fileno()).st_size:
            with gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
                shutil.copyfileobj(plain, packed)
        return plain.tell()


def _get_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _get_temporary_path(path: Path) -> Path:
    """Return the path of a file that will replace another one."""
    return path.with_name(path.name + _TEMPORARY)


def _replace_text(path: Path, document: Mapping[str, Any]) -> None:
    _get_temporary_path(path).write_text(json.dumps(document, indent=1) + "\n")
    _get_temporary_path(path).replace(path)
