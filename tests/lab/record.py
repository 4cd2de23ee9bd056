"""Records captures/lab and captures/faults anew: `python -m tests.lab.record [SCENARIO...]`, as root.

Without scenarios, all of them.

Then captures/manifest.json has their entries; those of captures that were made otherwise stay as they are.
"""

import json
import sys
from pathlib import Path

from ikeanalyze.lab.run.case_run import run_case
from ikeanalyze.lab.run.output_folder import exclusive_output_dir
from ikeanalyze.lab.scenario.expansion import load_cases
from tests.lab.agreement import read_received
from tests.paths import CAPTURES

MANIFEST = CAPTURES / "manifest.json"
LICENCE = "GPL-2.0-or-later"
#: The folders with scenarios, and those with their recordings.
FOLDERS = {CAPTURES / "scenarios": CAPTURES / "lab", CAPTURES / "faults" / "scenarios": CAPTURES / "faults"}


def entry(path: Path, made_by: Path) -> dict:
    """The entry of a recording, from what `lab run` left beside it."""
    found = json.loads(path.read_text())
    machine, files = found["machine"], found["files"]
    folder = path.parent.name
    return {
        "path": f"{folder}/{files['capture']}",
        "what": made_by.read_text().splitlines()[0].removeprefix("# "),
        "made_by": made_by.relative_to(CAPTURES).as_posix(),
        "stacks": {role: machine[role] for role in ("initiator", "responder", "aaa") if machine[role]},
        "date": machine["date"],
        "taken_on": "responder",
        "seen": "all",
        "keys": [f"{folder}/{files['keys']}"] if files["keys"] else [],
        "logs": [f"{folder}/{name}" for name in files["logs"].values()],
        "truth": f"{folder}/{path.name}",
        "expected": {role: count(found, path, role) for role in ("initiator", "responder")},
        "licence": LICENCE,
    }


def count(found: dict, path: Path, role: str) -> dict:
    """Datagrams that a side sent, and their bytes: by its log, or if it has none, by that of the responder."""
    summary = found["expected"][role]
    if summary is None:
        sizes = read_received(path.parent / found["files"]["logs"]["responder"])
        return {"datagrams": len(sizes), "bytes": sum(sizes)}
    return {what: summary[what] for what in ("datagrams", "bytes")}


def write(entries: list[dict]) -> None:
    """The manifest, an entry a line."""
    lines = ",\n".join(
        f"  {json.dumps(item)}" for item in sorted(entries, key=lambda one: ("/" in one["path"], one["path"]))
    )
    MANIFEST.write_text(f'{{"schema": "ikeanalyze.captures/1", "captures": [\n{lines}\n]}}\n')


def main(names: list[str]) -> None:
    every = sorted(path for folder in FOLDERS for path in folder.glob("*.toml"))
    scenarios = [path for path in every if not names or path.stem in names]
    entries = json.loads(MANIFEST.read_text())["captures"]
    for path in scenarios:
        made_by = path.relative_to(CAPTURES).as_posix()
        for old in [item for item in entries if item["made_by"] == made_by]:
            entries.remove(old)
            for name in [old["path"], *old["keys"], *old["logs"], old["truth"]]:
                (CAPTURES / name).unlink(missing_ok=True)
        folder = FOLDERS[path.parent]
        for case in load_cases(path):
            with exclusive_output_dir(folder):
                entries.append(entry(run_case(case, folder), path))
            print(entries[-1]["path"], file=sys.stderr)
    write(entries)


if __name__ == "__main__":
    main(sys.argv[1:])
