"""What is kept of a case: capture, logs, keys, and a manifest that says what is in them. Schema `ikeanalyze.lab/1`."""

import gzip
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from ikeanalyze.keys.files import KeyFileError, read_keys
from ikeanalyze.keys.write import json_text, write_private
from ikeanalyze.lab import daemonlog
from ikeanalyze.lab.scenario import Case

SCHEMA: Final = "ikeanalyze.lab/1"


@dataclass(frozen=True, slots=True)
class Cost:
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
class Step:
    """One thing that was done after a handshake."""

    what: str
    done: bool
    why: str | None


@dataclass(frozen=True, slots=True)
class Handshake:
    """One handshake, as the one sees it who triggered it."""

    number: int
    established: bool
    #: charon's words where it failed.
    why: str | None
    #: From the command to charon's answer, the CHILD_SA included.
    ms: float
    #: 16 hex digits each; null where there is no IKE SA.
    spi_i: str | None
    spi_r: str | None
    #: By host.
    costs: Mapping[str, Cost]
    steps: Sequence[Step]


def write(
    out: Path,
    case: Case,
    handshakes: Sequence[Handshake],
    *,
    machine: Mapping[str, Any],
    links: Mapping[str, Any],
    capture: Path,
    logs: Mapping[str, Path],
) -> Path:
    """Move what was recorded to `out`; where the manifest is. Files with keys are for their owner alone."""
    out.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(capture, out / f"{case.name}.pcapng")
    files: dict[str, Any] = {"capture": f"{case.name}.pcapng", "logs": {}}
    for role, log in logs.items():
        name = f"{case.name}.{role}.log.gz"
        _compressed(log, out / name)
        files["logs"][role] = name
    try:
        keys = read_keys(str(logs["initiator"]))
        text = json_text(keys.key_sets, keys.phase1, keys.esp)
        # where a key is from: the log by the name under which it is kept
        text = text.replace(str(logs["initiator"]), files["logs"]["initiator"])
        write_private(str(out / f"{case.name}.keys.json"), text)
        files["keys"] = f"{case.name}.keys.json"
    except KeyFileError:
        files["keys"] = None  # no handshake came so far
    document = {
        "schema": SCHEMA,
        "name": case.name,
        "scenario": {
            key: list(value) if isinstance(value, tuple) else value for key, value in case.values.items()
        },
        "machine": dict(machine),
        "links": dict(links),
        "files": files,
        "handshakes": [asdict(one) for one in handshakes],
        "expected": {role: daemonlog.read_file(log).document() for role, log in logs.items()},
    }
    path = out / f"{case.name}.manifest.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path


def _compressed(source: Path, target: Path) -> None:
    # keys of the lab protect nothing, but nobody should get used to logs with keys that all may read
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write(source.read_bytes())
