"""Read scenario files and expand them into cases."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from ikeanalyze.io.suggestions import suggest_name
from ikeanalyze.io.toml import TomlFileError, parse_toml, read_toml
from ikeanalyze.lab import LabError
from ikeanalyze.lab.scenario.case import ScenarioCase
from ikeanalyze.lab.scenario.conflicts import find_conflicts
from ikeanalyze.lab.scenario.settings import KEYS, ScenarioSettings, Value

#: Limit for the cases of a file.
MAX_CASES: Final = 500
#: Limits for the characters of a value and of a case's name: file names have at most 255 bytes with suffix.
_MAX_LABEL: Final = 60
_MAX_NAME: Final = 200

#: The tables of keys that vary together.
_PAIRS: Final = "pairs"


class LabScenarioError(LabError):
    """An invalid scenario; the text has the file, the key and the allowed values."""


def load_cases(path: Path, overrides: Mapping[str, Any] = MappingProxyType({})) -> list[ScenarioCase]:
    """Return the cases of a scenario file, in which values by dotted key replace those of the file.

    Raises:
        LabScenarioError: the file cannot be read, is not TOML, or has an invalid key or value.
    """
    try:
        return expand_cases(_override(read_toml(str(path)), overrides), str(path), path.stem)
    except IsADirectoryError:
        raise LabScenarioError(f"{path}: is a directory; name a scenario in it") from None
    except OSError as error:
        raise LabScenarioError(f"{path}: {error.strerror}") from None
    except TomlFileError as error:
        raise LabScenarioError(f"{path}: {error}") from None
    except RecursionError:
        raise LabScenarioError(f"{path}: tables are nested too deeply") from None


def parse_override(text: str) -> tuple[str, Any]:
    """Split `KEY=VALUE`. The value is that of TOML if it is valid TOML, otherwise the text itself.

    Raises:
        LabScenarioError: there is no `=`, no such key, or the key does not allow the value.
    """
    key, separator, value = text.partition("=")
    if not separator:
        raise LabScenarioError(f"{text}: expected KEY=VALUE, such as responder.stack=libreswan")
    _check_key(text, key, set())
    parsed: Any = value
    with suppress(TomlFileError):
        parsed = parse_toml(f"value = {value}".encode())["value"]
    _convert_values(text, key, parsed)
    return key, parsed


def _override(data: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scenario with other values of some keys, which vary no longer unless the new value is a list."""
    if not overrides:
        return dict(data)
    tables = {key: value for key, value in _flatten_tables(data) if key not in overrides} | dict(overrides)
    pairs = tables.pop(_PAIRS, None)
    if isinstance(pairs, list) and all(isinstance(table, dict) for table in pairs):
        rest = [{key: value for key, value in _flatten_tables(table) if key not in overrides} for table in pairs]
        # tables that differed in the replaced values only are the same now
        pairs = [table for number, table in enumerate(rest) if table not in rest[:number]]
    return tables | ({_PAIRS: pairs} if pairs and pairs != [{}] else {})


def expand_cases(data: Mapping[str, Any], where: str, name: str) -> list[ScenarioCase]:
    """Return the cases of a scenario that was read from `where`; the first dimension varies slowest.

    Raises:
        LabScenarioError: a key or value is invalid, keys contradict each other, or there are too many cases.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}", name):
        raise LabScenarioError(f"{where}: the file's name must consist of letters, digits, dots and dashes")
    tables = dict(data)
    pairs = tables.pop(_PAIRS, None)
    given: set[str] = set()
    dimensions: list[list[Mapping[str, Value]]] = []
    for key, value in _flatten_tables(tables):
        _check_key(where, key, given)
        dimensions.append([{key: each} for each in _convert_values(where, key, value)])
    if pairs is not None:
        dimensions.append(_read_pairs(where, pairs, given))
    count = math.prod(map(len, dimensions))
    if count > MAX_CASES:
        raise LabScenarioError(f"{where}: the lists make {count:,} cases; at most {MAX_CASES} are run at once")
    varied = [key for choices in dimensions if len(choices) > 1 for key in choices[0]]
    expanded = []
    for product in itertools.product(*dimensions):
        chosen = {key: value for choice in product for key, value in choice.items()}
        label = "_".join(_make_label(key, chosen[key]) for key in varied)
        case = ScenarioCase(f"{name}_{label}" if label else name, _make_settings(chosen))
        for conflict in find_conflicts(case):
            raise LabScenarioError(f"{where}: {conflict}")
        expanded.append(case)
    names = {case.name for case in expanded}
    # long proposals with the same beginning, or many of them
    if len(names) < len(expanded) or max(map(len, names)) > _MAX_NAME:
        numbered = enumerate(expanded, 1)
        return [ScenarioCase(f"{case.name[:_MAX_LABEL]}_{number}", case.settings) for number, case in numbered]
    return expanded


def _check_key(where: str, key: str, given: set[str]) -> None:
    """Check that a key exists and is given once, and add it to the given ones."""
    if key not in KEYS:
        siblings = [name for name in KEYS if name.split(".")[0] == key.split(".")[0]]
        raise LabScenarioError(
            f"{where}: unknown key {key}; {suggest_name(key, KEYS)}allowed are {', '.join(siblings or KEYS)}"
        )
    if key in given:  # TOML: a table's key and a quoted key with a dot are different
        raise LabScenarioError(f"{where}: {key} is given twice")
    given.add(key)


def _read_pairs(where: str, pairs: Any, given: set[str]) -> list[Mapping[str, Value]]:
    """Return the values of keys that vary together."""
    if not isinstance(pairs, list) or not pairs or not all(isinstance(table, dict) and table for table in pairs):
        raise LabScenarioError(f"{where}: {_PAIRS} is not a list of tables with keys")
    choices: list[Mapping[str, Value]] = []
    for table in pairs:
        own = set(given)
        choice = {}
        for key, value in _flatten_tables(table):
            _check_key(where, key, own)
            values = _convert_values(where, key, value)
            if len(values) > 1 or (isinstance(value, list) and key != "then"):
                raise LabScenarioError(f"{where}: {_PAIRS}: {key} is a list; a table of {_PAIRS} has single values")
            choice[key] = values[0]
        if choices and set(choice) != set(choices[0]):
            raise LabScenarioError(f"{where}: {_PAIRS}: all tables must have the same keys, {', '.join(choices[0])}")
        if choice in choices:
            raise LabScenarioError(f"{where}: {_PAIRS} has {_quote(choice)} twice")
        choices.append({key: choice[key] for key in choices[0]} if choices else choice)
    return choices


def _flatten_tables(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flatten_tables(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _make_settings(values: Mapping[str, Value]) -> ScenarioSettings:
    """Convert checked values by dotted key to settings."""
    tables: dict[str, Any] = {}
    for key, value in values.items():
        table, _, name = key.rpartition(".")
        (tables.setdefault(table, {}) if table else tables)[name] = value
    return msgspec.convert(tables, ScenarioSettings)


def _convert_values(where: str, key: str, value: Any) -> list[Value]:
    """Return the values of a key, several if it is a dimension."""
    # a single value of `then` is a list; a list of lists is a dimension
    is_matrix = isinstance(value, list) and (key != "then" or any(isinstance(part, list) for part in value))
    parts = value if is_matrix else [value]
    if not parts:
        raise LabScenarioError(f"{where}: {key} is an empty list")
    values: list[Value] = []
    for part in parts:
        try:
            converted = msgspec.convert(part, KEYS[key].kind)
        except msgspec.ValidationError:
            problem = f"{key} = {_quote(part)} is not allowed; allowed is {KEYS[key].allowed}"
            raise LabScenarioError(f"{where}: {problem}") from None
        if converted in values:
            raise LabScenarioError(f"{where}: {key} has {part!r} twice")
        values.append(converted)
    return values


def _quote(value: Any) -> str:
    """Return the shortened repr of a value."""
    try:
        text = repr(value)
    except ValueError:  # Python does not format thousands of decimal digits
        return "an integer of thousands of digits"
    return text if len(text) <= _MAX_LABEL else f"{text[:_MAX_LABEL]}..."


def _make_label(key: str, value: Value) -> str:
    """Return the part of a case's name for a value, in characters that are safe in file names."""
    text = "-".join(value) if isinstance(value, tuple) else f"{value:g}" if isinstance(value, float) else value
    side, _, last = key.rpartition(".")
    name = last if not side or side in ("ike", "link") else f"{side}-{last}"
    return re.sub(r"[^A-Za-z0-9._-]+", "-", f"{name}-{text}".replace("_", "-"))[:_MAX_LABEL]
