"""What is kept of a case: capture, logs, keys, and a manifest that says what is in them. Schema `ikeanalyze.lab/1`."""

import gzip
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from ikeanalyze.keys.detect import KeyFileError, read_keys
from ikeanalyze.keys.export import build_key_json, write_private
from ikeanalyze.keys.key_set import EspKey, KeySet, Phase1Key
from ikeanalyze.lab import LabError
from ikeanalyze.lab.logs import charon, freeradius, pluto
from ikeanalyze.lab.scenario import LIBRESWAN, ScenarioCase

SCHEMA: Final = "ikeanalyze.lab/1"
_Key = TypeVar("_Key", KeySet, Phase1Key, EspKey)
#: The hosts whose logs are kept.
_ROLES: Final = ("initiator", "responder", "aaa")


@dataclass(frozen=True, slots=True)
class ResourceCost:
    """What a daemon used from before a handshake to after it."""

    #: Processor time in user and kernel mode, in the kernel's steps of 10 ms or so.
    user_ms: float
    system_ms: float
    #: Time on a processor as the scheduler counts it, all threads; null where the kernel does not tell.
    processor_ms: float | None
    #: Resident set, before and after.
    rss_before_bytes: int
    rss_after_bytes: int


@dataclass(frozen=True, slots=True)
class ActionResult:
    """One thing that was done after a handshake."""

    what: str
    done: bool
    why: str | None


@dataclass(frozen=True, slots=True)
class RecordedLabHandshake:
    """One handshake, as the one sees it who triggered it."""

    number: int
    #: Whether its IKE SA was set up.
    established: bool
    #: Whether its CHILD_SA was.
    child: bool
    #: The peer's error or the daemon's words where something failed.
    why: str | None
    #: From the command to the daemon's answer, the CHILD_SA included where it came.
    ms: float
    #: 16 hex digits each; null where there is no IKE SA.
    spi_i: str | None
    spi_r: str | None
    #: By host.
    costs: Mapping[str, ResourceCost]
    steps: Sequence[ActionResult]


@dataclass(frozen=True, slots=True)
class CaseRecording:
    """What came of a case."""

    handshakes: Sequence[RecordedLabHandshake]
    #: Why it ended early; None: it did not.
    ended: str | None
    #: Versions of the daemons, the kernel and ikeanalyze.
    machine: Mapping[str, Any]
    #: By link, what emulated it and what that counted.
    links: Mapping[str, Any]
    capture: Path
    #: Frames that did not get into the capture; None: unknown.
    dropped: int | None
    #: The daemons' logs, by host.
    logs: Mapping[str, Path]


def write_recording(out: Path, case: ScenarioCase, recorded: CaseRecording) -> Path:
    """Write what was recorded to `out` in place of the files of an earlier run of the case; the path of the manifest. Files with keys
    are for their owner alone.

    Errors:
        LabError: something cannot be written; then nothing of this case is there.
    """
    logs = recorded.logs
    manifest = out / f"{case.name}.manifest.json"
    names = {role: f"{case.name}.{role}.log.gz" for role in logs}
    written = [out / f"{case.name}.pcapng", out / f"{case.name}.keys.json", manifest]
    written += [out / f"{case.name}.{role}.log.gz" for role in _ROLES]
    try:
        for path in written:
            path.unlink(missing_ok=True)
        shutil.copyfile(recorded.capture, written[0])
        for role, log in logs.items():
            _compressed(log, out / names[role])
        keys = _keys(case, logs, names)
        if keys is not None:
            write_private(str(out / f"{case.name}.keys.json"), keys)
        document = {
            "schema": SCHEMA,
            "name": case.name,
            "scenario": {key: list(value) if isinstance(value, tuple) else value for key, value in case.values.items()},
            "machine": dict(recorded.machine),
            "links": dict(recorded.links),
            "dropped": recorded.dropped,
            "files": {
                "capture": written[0].name,
                "logs": names,
                "keys": f"{case.name}.keys.json" if keys is not None else None,
            },
            "ended": recorded.ended,
            "handshakes": [asdict(handshake) for handshake in recorded.handshakes],
            "expected": {role: _expected(role, case, log) for role, log in logs.items()},
        }
        manifest.write_text(json.dumps(document, indent=1) + "\n")
    except BaseException as error:
        for path in written:
            path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise LabError(f"{error.filename2 or error.filename or out}: {error.strerror}") from None
        raise
    return manifest


def _keys(case: ScenarioCase, logs: Mapping[str, Path], names: Mapping[str, str]) -> str | None:
    """The keys as JSON, from the log that has more of them; None: no handshake came so far."""
    # libreswan writes down neither the salts nor the keys of earlier epochs
    role = "initiator" if case.stack("initiator") != LIBRESWAN or case.stack("responder") == LIBRESWAN else "responder"
    try:
        keys = read_keys(str(logs[role]))
    except KeyFileError:
        return None
    path = names[role]
    return build_key_json(_kept(keys.key_sets, path), _kept(keys.phase1, path), _kept(keys.esp, path))


def _kept(keys: Sequence[_Key], path: str) -> list[_Key]:
    """Keys, each from the log by the name under which it is kept."""
    return [replace(key, origin=replace(key.origin, path=path)) for key in keys]


def _expected(role: str, case: ScenarioCase, log: Path) -> dict[str, Any]:
    """What a daemon's log says that it did."""
    if role == "aaa":
        return {"packets": [asdict(packet) for packet in freeradius.read_freeradius_log(log)]}
    read = pluto.parse_pluto_log if case.stack(role) == LIBRESWAN else charon.parse_charon_log
    with log.open(encoding="utf-8", errors="replace") as lines:
        return read(lines).document()


def _compressed(source: Path, target: Path) -> None:
    # keys of the lab protect nothing, but nobody should get used to logs with keys that all may read
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with (
        source.open("rb") as plain,
        os.fdopen(descriptor, "wb") as raw,
        gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed,
    ):
        shutil.copyfileobj(plain, packed)
