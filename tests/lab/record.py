"""Records captures/lab anew: `python -m tests.lab.record [SCENARIO...]`, as root; without scenarios all of them.

Then captures/manifest.json has their entries; those of captures that were made otherwise stay as they are.
"""

import json
import sys
from pathlib import Path

from ikeanalyze.lab import scenario
from ikeanalyze.lab.run import exclusive_output_dir, run_case
from tests.lab.agreement import read_received
from tests.paths import CAPTURES

MANIFEST = CAPTURES / "manifest.json"
LICENCE = "GPL-2.0-or-later"


def entry(path: Path, made_by: Path) -> dict:
    """The entry of a recording, from what `lab run` left beside it."""
    found = json.loads(path.read_text())
    machine, files = found["machine"], found["files"]
    return {
        "path": f"lab/{files['capture']}",
        "what": made_by.read_text().splitlines()[0].removeprefix("# "),
        "made_by": made_by.relative_to(CAPTURES).as_posix(),
        "stacks": {role: machine[role] for role in ("initiator", "responder", "aaa") if machine[role]},
        "date": machine["date"],
        "taken_on": "responder",
        "seen": "all",
        "keys": [f"lab/{files['keys']}"] if files["keys"] else [],
        "logs": [f"lab/{name}" for name in files["logs"].values()],
        "truth": f"lab/{path.name}",
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
    scenarios = [CAPTURES / "scenarios" / f"{name}.toml" for name in names]
    entries = json.loads(MANIFEST.read_text())["captures"]
    for path in scenarios or sorted((CAPTURES / "scenarios").glob("*.toml")):
        made_by = path.relative_to(CAPTURES).as_posix()
        for old in [item for item in entries if item["made_by"] == made_by]:
            entries.remove(old)
            for name in [old["path"], *old["keys"], *old["logs"], old["truth"]]:
                (CAPTURES / name).unlink(missing_ok=True)
        for case in scenario.load_cases(path):
            with exclusive_output_dir(CAPTURES / "lab"):
                entries.append(entry(run_case(case, CAPTURES / "lab"), path))
            print(entries[-1]["path"], file=sys.stderr)
    write(entries)


if __name__ == "__main__":
    main(sys.argv[1:])
