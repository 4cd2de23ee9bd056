"""Labels of captures: what a path and a lab's manifest say of how a capture came to be.

All captures of a dataset have the same label columns; where nothing says a label, it is null. What a path says counts more
than a manifest, because somebody asked for it.
"""

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ikeanalyze.dataset.finding import Listed, stem_of, text_of
from ikeanalyze.dataset.patterns import Kind, Pattern, Value, is_name

_LAB_SCHEMA: Final = "ikeanalyze.lab/1"
_LARGEST_MANIFEST: Final = 64 << 20  # bytes

Labels = Mapping[str, Value]


class LabelError(Exception):
    """Labels that cannot be columns: one line for the user."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """The labels of captures."""

    kinds: dict[str, Kind]  # by label name, in the order of columns
    values: dict[str, Labels]  # by absolute path; what has no label is left out
    unlabelled: list[Listed]  # captures that no pattern fits, if there are patterns


def label(captures: Sequence[Listed], patterns: Sequence[Pattern], reserved: Iterable[str]) -> Labelled:
    """Label captures by the first pattern that fits each, and by the lab's manifests beside them.

    Raises:
        LabelError: a name is that of a column (`reserved`), or stands for values of different kinds.

    """
    kinds: dict[str, Kind] = {}
    for pattern in patterns:
        for name, kind in pattern.kinds.items():
            _settle(kinds, name, kind, f"--label {pattern.text!r}")
    taken = {name.lower() for name in reserved}
    for name in kinds:
        if name.lower() in taken:
            raise LabelError(f"the label {name} would be a column that is there already; name it otherwise")
    values: dict[str, Labels] = {}
    unlabelled = []
    for one in captures:
        of_lab = {name: value for name, value in _lab_labels(one.path).items() if name not in taken}
        of_path = next((found for p in patterns if (found := p.labels(text_of(one.path))) is not None), None)
        if of_path is None and patterns:
            unlabelled.append(one)
        mine: dict[str, Value] = {}
        for name, value in of_lab.items():
            if not any(name in pattern.kinds for pattern in patterns):
                _settle(kinds, name, kind_of(value), f"the manifest beside {one.name}")
                mine[name] = value
        mine.update(of_path or {})
        if mine:
            values[one.path] = mine
    _tell_apart(kinds)
    return Labelled(kinds, values, unlabelled)


def merged(ours: Mapping[str, Kind], others: Mapping[str, Kind]) -> dict[str, Kind]:
    """Label columns of both, in order.

    Raises:
        LabelError: one name, two kinds.

    """
    kinds = dict(ours)
    for name, kind in others.items():
        _settle(kinds, name, kind, "this batch")
    return kinds


def _tell_apart(kinds: Iterable[str]) -> None:
    """DuckDB and Spark do not tell columns apart by upper and lower case."""
    seen: dict[str, str] = {}
    for name in kinds:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise LabelError(f"the labels {name} and {other} differ in upper and lower case alone")


def kind_of(value: Value) -> Kind:
    """The kind of a label by its value."""
    match value:
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float"
        case str():
            return "str"


def _settle(kinds: dict[str, Kind], name: str, kind: Kind, where: str) -> None:
    if kinds.setdefault(name, kind) != kind:
        raise LabelError(
            f"the label {name} is {kind} in {where}, and {kinds[name]} elsewhere. Say one kind in all, such as "
            f"{{{name}:{kinds[name]}}}"
        )


def _lab_labels(path: str) -> dict[str, Value]:
    """What the lab's manifest beside a capture says; nothing if there is none, or it is of another capture."""
    folder, name = os.path.split(path)
    manifest = os.path.join(folder, f"{stem_of(name)}.manifest.json")
    try:
        if os.path.getsize(manifest) > _LARGEST_MANIFEST:
            return {}
        with open(manifest, "rb") as file:
            document = json.load(file)
        if document["schema"] != _LAB_SCHEMA or document["files"]["capture"] != name:
            return {}
        found: dict[str, Value] = {}
        if _is_text(name := str(document["name"])):
            found["scenario"] = name
        for key, value in document["scenario"].items():
            if "." not in key and key != "ip_version":
                continue  # how often, how long, what comes after: nothing of it makes two handshakes differ
            column = key.replace(".", "_")
            match value:
                case bool():
                    one: Value | None = value
                case str():
                    one = value if _is_text(value) else None
                case int() | float():
                    one = _finite(value)
                case _:
                    one = None
            if one is not None and is_name(column):
                found[column] = one
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    return found


def _finite(value: float) -> float | None:
    """A number as tables have it; None: JSON has larger ones, and those of Python also NaN, which is no number."""
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _is_text(value: str) -> bool:
    """Whether tables can have it: JSON can write halves of characters, UTF-8 cannot."""
    return not any("\ud800" <= letter <= "\udfff" for letter in value)
