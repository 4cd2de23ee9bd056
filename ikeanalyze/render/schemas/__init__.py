"""JSON Schemas (draft 2020-12) of the documents that commands write, a file for each.

They allow unknown keys, because additions are free. Tests validate the output of every command against them, and that
they leave no key out.
"""

from pathlib import Path
from typing import Final

#: The schema of the JSON output of each command.
COMMANDS: Final = {
    "report": "report",
    "live": "report",
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
