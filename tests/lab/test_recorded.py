"""The recordings in captures/lab against their manifests: every message that the logs have, and no other."""

import json
from pathlib import Path

import pytest

from ikeanalyze.lab import scenario
from lab.agreement import check

CAPTURES = Path(__file__).parent.parent.parent / "captures"
INDEX = json.loads((CAPTURES / "lab" / "index.json").read_text())


@pytest.mark.parametrize("entry", INDEX, ids=lambda entry: entry["name"])
def test_a_recording_agrees_with_its_manifest(entry):
    manifest = check(CAPTURES / "lab" / f"{entry['name']}.manifest.json")
    assert {key: manifest["machine"][key] for key in ("date", "strongswan", "freeradius")} == {
        key: entry[key] for key in ("date", "strongswan", "freeradius")
    }
    cases = {case.name: case for case in scenario.load(CAPTURES / entry["scenario"])}
    values = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in cases[entry["name"]].values.items()
    }
    assert values == manifest["scenario"]


def test_nothing_else_is_there_and_all_is_small():
    names = {path.name.removesuffix(".manifest.json") for path in (CAPTURES / "lab").glob("*.manifest.json")}
    assert names == {entry["name"] for entry in INDEX}
    assert {path.name for path in (CAPTURES / "scenarios").iterdir()} == {
        Path(entry["scenario"]).name for entry in INDEX
    }
    assert sum(path.stat().st_size for path in CAPTURES.rglob("*") if path.is_file()) < 5 << 20
