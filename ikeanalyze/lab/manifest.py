"""Stores the results of a case: capture, logs, keys and a manifest. Schema `ikeanalyze.lab/1`."""

import gzip
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from ikeanalyze.io.lab_manifest import CAPTURE_SUFFIXES, LAB_SCHEMA
from ikeanalyze.keys.detect import KeyFileError, read_keys
from ikeanalyze.keys.export import build_key_json, write_private
from ikeanalyze.keys.key_set import EspKey, KeySet, Phase1Key
from ikeanalyze.lab import LabError
from ikeanalyze.lab.daemons.registry import get_stack
from ikeanalyze.lab.daemons.stack import LoggedKeys
from ikeanalyze.lab.logs import freeradius
from ikeanalyze.lab.scenario import ROLES, ScenarioCase

_Key = TypeVar("_Key", KeySet, Phase1Key, EspKey)
#: Hosts with logs.
_HOSTS: Final = (*ROLES, "aaa")


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


def write_recording(out: Path, case: ScenarioCase, recorded: CaseRecording) -> Path:
    """Write the results to `out`, replacing an earlier run of the case; return the path of the manifest.

    Files with keys are readable only for their owner.

    Raises:
        LabError: a file cannot be written; then no file of this case remains.
    """
    logs = recorded.logs
    key_file, manifest = (out / f"{case.name}.{suffix}" for suffix in ("keys.json", "manifest.json"))
    captures = {host: out / f"{case.name}{suffix}.pcapng" for host, suffix in CAPTURE_SUFFIXES.items()}
    names = {role: f"{case.name}.{role}.log.gz" for role in _HOSTS}
    paths = [*captures.values(), key_file, manifest, *(out / name for name in names.values())]
    try:
        for path in paths:
            path.unlink(missing_ok=True)
        for host, capture in recorded.captures.items():
            shutil.copyfile(capture, captures[host])
        for role, log in logs.items():
            _compress(log, out / names[role])
        keys = _read_log_keys(case, logs, names)
        if keys is not None:
            write_private(str(key_file), keys)
        document = {
            "schema": LAB_SCHEMA,
            "name": case.name,
            "scenario": {key: list(value) if isinstance(value, tuple) else value for key, value in case.values.items()},
            "certificates_sent": case.certificates_sent,
            "machine": dict(recorded.machine),
            "links": dict(recorded.links),
            "dropped": recorded.dropped,
            "files": {
                "capture": captures[case.capture_points[0]].name,
                "captures": {host: captures[host].name for host in recorded.captures},
                "logs": {role: names[role] for role in logs},
                "keys": key_file.name if keys is not None else None,
            },
            "ended": recorded.ended,
            "handshakes": [asdict(handshake) for handshake in recorded.handshakes],
            "expected": {role: _parse_log(role, case, log) for role, log in logs.items()},
        }
        manifest.write_text(json.dumps(document, indent=1) + "\n")
    except BaseException as error:
        for path in paths:
            path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise LabError(f"{error.filename2 or error.filename or out}: {error.strerror}") from None
        raise
    return manifest


def _read_log_keys(case: ScenarioCase, logs: Mapping[str, Path], names: Mapping[str, str]) -> str | None:
    """Return the keys of a daemon's log as JSON; None: no handshake got that far, or no log has keys."""
    role = max(ROLES, key=lambda role: get_stack(case.stack(role)).logged_keys)
    if get_stack(case.stack(role)).logged_keys is LoggedKeys.NONE:
        return None
    try:
        keys = read_keys(str(logs[role]))
    except KeyFileError:
        return None
    path = names[role]
    return build_key_json(_set_origin(keys.key_sets, path), _set_origin(keys.phase1, path), _set_origin(keys.esp, path))


def _set_origin(keys: Sequence[_Key], path: str) -> list[_Key]:
    """Return the keys with the path of the stored log as origin."""
    return [replace(key, origin=replace(key.origin, path=path)) for key in keys]


def _parse_log(role: str, case: ScenarioCase, log: Path) -> dict[str, Any] | None:
    """Return the messages or packets of a daemon's log; None if it does not report them."""
    if role == "aaa":
        return {"packets": [asdict(packet) for packet in freeradius.read_freeradius_log(log)]}
    with log.open(encoding="utf-8", errors="replace") as lines:
        summary = get_stack(case.stack(role)).parse_log(lines)
    return summary.document() if summary else None


def _compress(source: Path, target: Path) -> None:
    # not readable for others, because logs have keys
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with (
        source.open("rb") as plain,
        os.fdopen(descriptor, "wb") as raw,
        gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed,
    ):
        shutil.copyfileobj(plain, packed)
