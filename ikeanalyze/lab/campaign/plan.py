"""Which handshakes of each case are missing in the output directory.

A case is recorded in parts, each with its own daemons, capture and manifest: one, unless a run was continued or several
processes record the case. The parts share the numbers from 1 to `iterations`; each number is in one part.
"""

import json
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ikeanalyze.io.lab_manifest import LAB_SCHEMA
from ikeanalyze.lab import LabError
from ikeanalyze.lab.manifest import RecordingFiles, complete_checkpoint, encode_scenario
from ikeanalyze.lab.scenario.case import ScenarioCase
from ikeanalyze.lab.scenario.settings import KEYS


@dataclass(slots=True)
class CasePlan:
    """A case, and its handshakes that are not recorded yet."""

    case: ScenarioCase
    out: Path
    missing: deque[int]  # numbers that no part has or has begun
    next_part: int = 1
    recordings: list[Path] = field(default_factory=list)  # manifests of the parts of earlier runs

    def take_numbers(self) -> Iterator[int]:
        """Take the missing numbers one at a time."""
        while self.missing:
            yield self.missing.popleft()

    def count_missing(self) -> int:
        """Return the number of missing handshakes: several per number if they run at the same time."""
        return len(self.missing) * self.case.settings.initiators

    def open_part(self) -> RecordingFiles:
        """Return the files of a new part. The first one replaces an earlier run of the case."""
        if self.next_part == 1:
            for files in list_parts(self.out, self.case.name):
                if files.part > 1:
                    files.remove()
        files = RecordingFiles(self.out, self.case.name, self.next_part)
        self.next_part += 1
        return files


def plan_cases(cases: Sequence[ScenarioCase], out: Path, *, resume: bool) -> list[CasePlan]:
    """Return what is to be run; with `resume`, only what `out` lacks.

    Recordings of a killed run are completed.

    Raises:
        LabError: a case was recorded with other settings, or a manifest cannot be read.
    """
    return [_plan_missing(case, out) if resume else _plan_all(case, out) for case in cases]


def _plan_all(case: ScenarioCase, out: Path) -> CasePlan:
    return CasePlan(case, out, deque(range(1, case.settings.iterations + 1)))


def _plan_missing(case: ScenarioCase, out: Path) -> CasePlan:
    plan = _plan_all(case, out)
    _remove_fragments(out, case.name)
    parts = list_parts(out, case.name)
    for files in parts:
        document = _read_manifest(files)
        _check_settings(case, document, files.manifest)
    recorded: set[int] = set()
    for files in parts:
        try:
            complete_checkpoint(case, files)
            recorded |= {
                handshake["number"]
                for handshake in _read_manifest(files)["handshakes"]
                if not handshake.get("warm_up", False)
            }
        except (KeyError, TypeError, ValueError):
            raise _make_manifest_error(files.manifest) from None
        plan.recordings.append(files.manifest)
        plan.next_part = files.part + 1
    plan.missing = deque(number for number in plan.missing if number not in recorded)
    return plan


def list_parts(out: Path, name: str) -> list[RecordingFiles]:
    """Return the parts of a case that `out` has, in order."""
    pattern = re.compile(re.escape(name) + r"(?:\.part([2-9]|[1-9]\d{1,5}))?\.manifest\.json")
    matches = [match for path in out.glob("*.manifest.json") if (match := pattern.fullmatch(path.name))]
    parts = [RecordingFiles(out, name, int(match[1] or 1)) for match in matches]
    return sorted((files for files in parts if _has_name(files, name)), key=lambda files: files.part)


def _remove_fragments(out: Path, name: str) -> None:
    """Remove what a killed run wrote before the manifest that describes it."""
    pattern = re.compile(
        re.escape(name) + r"(?:\.part(\d{1,6}))?\.(?:pcapng|keys\.json|manifest\.json|\w+\.log\.gz)(\.tmp)?"
    )
    for path in sorted(out.glob("*")):
        match = pattern.fullmatch(path.name)
        if match and (match[2] or not RecordingFiles(out, name, int(match[1] or 1)).manifest.exists()):
            path.unlink(missing_ok=True)


def _has_name(files: RecordingFiles, name: str) -> bool:
    """Whether a manifest is one of this case: another scenario may be named like a part of it."""
    return files.part == 1 or _read_manifest(files).get("name") == name


def _read_manifest(files: RecordingFiles) -> dict[str, Any]:
    try:
        document = json.loads(files.manifest.read_bytes())
    except OSError as error:
        raise LabError(f"{files.manifest}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise _make_manifest_error(files.manifest) from None
    if not isinstance(document, dict) or document.get("schema") != LAB_SCHEMA:
        raise _make_manifest_error(files.manifest)
    return document


def _make_manifest_error(path: Path) -> LabError:
    return LabError(f"{path}: not a manifest of the lab; remove it, or choose another directory")


def _check_settings(case: ScenarioCase, document: dict[str, Any], path: Path) -> None:
    """Check that a part has the settings of its case; the number of iterations may change."""
    recorded = document.get("scenario")
    if not isinstance(recorded, dict):
        raise _make_manifest_error(path)
    for key, value in encode_scenario(case).items():
        default = KEYS[key].default  # of a key that did not exist when it was recorded
        before = recorded.get(key, list(default) if isinstance(default, tuple) else default)
        if key != "iterations" and before != value:
            change = f"{key} was {json.dumps(before)} and is {json.dumps(value)}"
            raise LabError(f"{path}: recorded with other settings ({change}); choose another directory")
    unknown = set(recorded) - set(KEYS)
    if unknown:
        raise LabError(f"{path}: recorded with the unknown key {min(unknown)}; choose another directory")
