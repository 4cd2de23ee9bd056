"""Validates documents against the JSON Schemas of the package, with no key left out of the schema."""

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from ikeanalyze.render.schemas import COMMANDS, read_schema

#: By the name in a document.
NAMES = {f"ikeanalyze.{name}/1": name for name in COMMANDS.values()}


def forbid_unknown_keys(schema: Any) -> Any:
    """The schema without room for additions: those have to be added to it."""
    if isinstance(schema, list):
        return [forbid_unknown_keys(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: forbid_unknown_keys(part) for key, part in schema.items()}
    return {**closed, "additionalProperties": False} if isinstance(schema.get("required"), list) else closed


@cache
def make_validator(name: str, definition: str | None = None) -> Draft202012Validator:
    schema = json.loads(read_schema(name))
    Draft202012Validator.check_schema(schema)
    closed = forbid_unknown_keys(schema)
    if definition is not None:
        closed = {"$ref": f"#/$defs/{definition}", "$defs": closed["$defs"]}
    return Draft202012Validator(closed)


def list_errors(document: Any, definition: str | None = None) -> list[str]:
    """What is wrong with a document of a command, or with an object of a report: a `definition` of its schema."""
    name = "report" if definition else NAMES[document["schema"]]
    validator = make_validator(name, definition)
    return [f"{error.json_path}: {error.message[:300]}" for error in validator.iter_errors(document)]
