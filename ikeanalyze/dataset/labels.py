"""Labels of captures, from their paths and from the lab's manifests.

All captures of a dataset have the same label columns; a capture without a label has null there. Labels of a path take
precedence over those of a manifest, because the user asked for them.

A pattern such as `{config}/loss{loss:float}/{run:int}.pcapng` is a Python format string, matched against a path. A
field does not match a `/`. The pattern is matched against as many components at the end of the path as it has itself.
"""

# The library `parse` would not make this shorter: it is stricter or laxer in numbers, names, `/` and upper and lower
# case, so that each type needs a converter of its own and every check of a pattern remains.

import math
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from ikeanalyze.analysis.result import format_path
from ikeanalyze.dataset.batch.discovery import CaptureFile
from ikeanalyze.io.lab_manifest import read_lab_manifest

LabelType = Literal["int", "float", "str", "bool"]
Value = int | float | str | bool
Labels = Mapping[str, Value]

#: What a label of each type looks like in a path.
_FORMS: Final[Mapping[str, str]] = {
    "int": r"[+-]?\d+",
    "float": r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?",
    "str": r"[^/]+?",
}
_CONVERTERS: Final = {"int": int, "float": float, "str": str}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INT64_LIMIT: Final = 2**63


class PatternError(Exception):
    """A pattern is invalid: one line for the user."""


class LabelError(Exception):
    """Labels cannot become columns: one line for the user."""


@dataclass(frozen=True, slots=True)
class LabelPattern:
    """The pattern of a `--label`."""

    text: str  # as given
    label_types: Mapping[str, LabelType]  # by label name, in order
    _form: re.Pattern[str]
    _depth: int  # components of the path that it is matched against

    def labels(self, path: str) -> dict[str, Value] | None:
        """The labels of an absolute path; None: the pattern does not match."""
        match = self._form.fullmatch("/".join(path.split("/")[-self._depth :]))
        if match is None:
            return None
        values = {name: _CONVERTERS[label_type](match[name]) for name, label_type in self.label_types.items()}
        return values if all(map(_fits_column, values.values())) else None


@dataclass(frozen=True, slots=True)
class CaptureLabels:
    """The labels of captures."""

    label_types: dict[str, LabelType]  # by label name, in the order of columns
    values: dict[str, Labels]  # by absolute path; captures without labels are left out
    unlabelled: list[CaptureFile]  # captures that no pattern matches, if there are patterns


def is_name(text: str) -> bool:
    """Whether a label may have this name."""
    return _NAME.fullmatch(text) is not None


def _fits_column(value: Value) -> bool:
    """Whether a column can hold the value: a 64-bit integer, or a finite float."""
    if isinstance(value, int):
        return -_INT64_LIMIT <= value < _INT64_LIMIT
    return not isinstance(value, float) or math.isfinite(value)


def parse_pattern(text: str) -> LabelPattern:
    """Parse a pattern.

    Raises:
        PatternError: the pattern is invalid; the text has the reason and what is allowed.
    """
    label_types: dict[str, LabelType] = {}
    form = ""
    try:
        fields = list(string.Formatter().parse(text))
    except ValueError as error:
        raise PatternError(f"{text!r}: {error}. Write a label in braces: {{config}}, {{run:int}}") from None
    for literal, name, spec, conversion in fields:
        form += re.escape(literal)
        if name is None:
            continue
        label_type = cast(LabelType, spec or "str")
        if conversion:
            raise PatternError(f"{text!r}: invalid conversion !{conversion} of {name!r}; a label is int, float or str")
        if label_type not in _FORMS:
            raise PatternError(f"{text!r}: unknown type {label_type!r}; a label is int, float or str")
        if not name:
            form += f"(?:{_FORMS[label_type]})"
            continue
        if not is_name(name):
            raise PatternError(f"{text!r}: invalid name {name!r}; use letters, digits and _")
        if name in label_types:
            raise PatternError(f"{text!r}: {name} occurs twice; use {{}} to match without a label")
        label_types[name] = label_type
        form += f"(?P<{name}>{_FORMS[label_type]})"
    if not label_types:
        raise PatternError(f"{text!r}: no label in it, such as {{config}} or {{run:int}}")
    return LabelPattern(text, label_types, re.compile(form, re.DOTALL), text.count("/") + 1)


def label_captures(
    captures: Sequence[CaptureFile], patterns: Sequence[LabelPattern], reserved: Iterable[str]
) -> CaptureLabels:
    """Label captures by the first pattern that matches each, and by the lab's manifests next to them.

    Raises:
        LabelError: a name is that of a column (`reserved`), or has values of different types.
    """
    label_types: dict[str, LabelType] = {}
    for pattern in patterns:
        for name, label_type in pattern.label_types.items():
            _add_type(label_types, name, label_type, f"--label {pattern.text!r}")
    taken = {name.lower() for name in reserved}
    for name in label_types:
        if name.lower() in taken:
            raise LabelError(f"the label {name} has the name of another column; choose another name")
    values: dict[str, Labels] = {}
    unlabelled = []
    for capture in captures:
        path = format_path(capture.path)
        path_labels = next((match for pattern in patterns if (match := pattern.labels(path)) is not None), None)
        if path_labels is None and patterns:
            unlabelled.append(capture)
        labels: dict[str, Value] = {}
        for name, value in _read_lab_labels(capture.path).items():
            if name not in taken and not any(name in pattern.label_types for pattern in patterns):
                _add_type(label_types, name, get_label_type(value), f"the manifest of {capture.name}")
                labels[name] = value
        labels.update(path_labels or {})
        if labels:
            values[capture.path] = labels
    _check_case(label_types)
    return CaptureLabels(label_types, values, unlabelled)


def merge_label_columns(ours: Mapping[str, LabelType], others: Mapping[str, LabelType]) -> dict[str, LabelType]:
    """The label columns of both, in order.

    Raises:
        LabelError: a name has two types.
    """
    label_types = dict(ours)
    for name, label_type in others.items():
        _add_type(label_types, name, label_type, "this batch")
    return label_types


def _check_case(names: Iterable[str]) -> None:
    """DuckDB and Spark do not distinguish columns by upper and lower case."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise LabelError(f"the labels {name} and {other} differ only in upper and lower case")


def get_label_type(value: Value) -> LabelType:
    """The type of a label by its value."""
    return cast(LabelType, type(value).__name__)


def _add_type(label_types: dict[str, LabelType], name: str, label_type: LabelType, where: str) -> None:
    if label_types.setdefault(name, label_type) != label_type:
        raise LabelError(
            f"the label {name} is {label_type} in {where}, but {label_types[name]} elsewhere. Use the same type "
            f"everywhere, such as {{{name}:{label_types[name]}}}"
        )


def _read_lab_labels(path: str) -> dict[str, Value]:
    """The labels in the lab's manifest of a capture; empty if it has no manifest, or that of another capture."""
    manifest = read_lab_manifest(path)
    if manifest is None:
        return {}
    labels: dict[str, Value] = {}
    if _is_utf8(manifest.name):
        labels["scenario"] = manifest.name
    for key, content in manifest.scenario.items():
        if "." not in key and key != "ip_version":
            continue  # repetitions, durations, later actions: they make no difference between two handshakes
        column = key.replace(".", "_")
        value = _to_label(content)
        if value is not None and is_name(column):
            labels[column] = value
    return labels


def _to_label(value: Any) -> Value | None:
    """A value of JSON as a label; None: it cannot be one, like NaN and infinities. Numbers become floats."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value if _is_utf8(value) else None
    if not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _is_utf8(value: str) -> bool:
    """Whether tables can hold the text: JSON can contain lone surrogates, UTF-8 cannot."""
    return not any("\ud800" <= letter <= "\udfff" for letter in value)
