"""JSON Schemas (draft 2020-12) of the documents that commands write, a file for each.

They allow unknown keys, because additions are free. Tests validate the output of every command against them, and that
they leave no key out.
"""

import json
from pathlib import Path
from typing import Final

#: The schema of the JSON document of each command.
COMMANDS: Final = {
    "report": "report",
    "verify": "verification",
    "keys": "keylist",
    "compare": "comparison",
    "predict": "prediction",
    "overhead compute": "overhead",
    "overhead measure": "overhead",
    "overhead paper": "overhead",
    "rank": "ranking",
    "replay": "replay",
    "doctor": "doctor",
}


def read_schema(name: str) -> str:
    """Return the text of a schema: a value of `COMMANDS`."""
    return (Path(__file__).parent / f"{name}-1.json").read_text()


def read_line_schema() -> str:
    """Return the text of the schema of a line of JSON lines: of a handshake, as in the schema of reports."""
    report = json.loads(read_schema("report"))
    line = {
        "$schema": report["$schema"],
        "title": "A handshake of ikeanalyze",
        "description": "A line of JSON lines. Additions are free: ignore unknown keys.",
        "$ref": "#/$defs/handshake",
        "$defs": report["$defs"],
    }
    return json.dumps(line, indent=2) + "\n"
