"""Links by name: the TOML files beside this one, and those that users make of them.

description = "What it is"
source = "Where the numbers are from"
rtt_ms = 600            # there and back; may be left out, to be given on the command line
jitter_ms = 0
loss = 0.01             # share of frames, each direction
rate_up = "384k"        # bit/s from the initiator, a number or text with k, M or G
rate_down = "7.2M"
mtu = 1280
drop_ip_fragments = false
aaa_rtt_ms = 10
[burst]
ms = 100                # mean length of a bad time; or frames = 3
loss = 1.0              # within it
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Final

from ikeanalyze.io.toml import TomlFileError, read_toml
from ikeanalyze.model.link import Burst

FOLDER: Final = Path(__file__).parent / "links"

_NUMBERS: Final = ("rtt_ms", "jitter_ms", "loss", "aaa_rtt_ms")
_RATES: Final = ("rate_up", "rate_down")
_TEXTS: Final = ("description", "source")
_KNOWN: Final = (*_TEXTS, *_NUMBERS, *_RATES, "mtu", "drop_ip_fragments", "burst")
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmMgG]?)(?:bit/s|bps)?")


class ScenarioError(ValueError):
    """There is no such scenario, or what is in it cannot be meant; the text says what and where."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a file says of a link; `fields` are those of `Link` that it sets."""

    name: str
    description: str
    source: str
    fields: Mapping[str, Any]


def names() -> list[str]:
    """The scenarios that come with ikeanalyze."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read_scenario(text: str) -> Scenario:
    """The scenario of this name, or in the file of this path.

    Raises:
        ScenarioError: there is none, or it is wrong.
    """
    path = FOLDER / f"{text}.toml" if text in names() else Path(text)
    try:
        return _scenario(path.stem, read_toml(str(path)))
    except (ScenarioError, TomlFileError) as error:
        raise ScenarioError(f"{text}: {error}") from None
    except OSError as error:
        raise ScenarioError(
            f"{text}: neither {', '.join(names())} nor a file that can be read ({error.strerror})"
        ) from None


def _scenario(name: str, given: Mapping[str, Any]) -> Scenario:
    fields: dict[str, Any] = {"name": name}
    for key, value in given.items():
        if key not in _KNOWN:
            raise ScenarioError(f"there is no {key!r}; there are {', '.join(_KNOWN)}")
        if key in _TEXTS:
            if not isinstance(value, str):
                raise ScenarioError(f"{key} must be text")
        elif key in _NUMBERS:
            fields[key] = _number(key, value)
        elif key in _RATES:
            fields[key] = rate(value) if isinstance(value, str) else _number(key, value)
        elif key == "burst":
            fields[key] = _burst(value)
        else:
            fields[key] = _other(key, value)
    return Scenario(name, given.get("description", ""), given.get("source", ""), fields)


def _number(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e15 or not isfinite(value):
        raise ScenarioError(f"{key} must be a number")
    return float(value)


def _other(key: str, value: Any) -> Any:
    wanted = (int, "a whole number") if key == "mtu" else (bool, "true or false")
    if type(value) is not wanted[0]:
        raise ScenarioError(f"{key} must be {wanted[1]}")
    _number(key, int(value))
    return value


def _burst(value: Any) -> Burst:
    if not isinstance(value, dict) or len({"ms", "frames"} & value.keys()) != 1:
        raise ScenarioError("burst must be a table with either ms or frames")
    if unknown := value.keys() - {"ms", "frames", "loss"}:
        raise ScenarioError(f"there is no burst.{min(unknown)}; there are ms, frames, loss")
    of_frames = "frames" in value
    mean = _number("burst", value["frames" if of_frames else "ms"])
    return Burst(mean, of_frames, _number("burst.loss", value.get("loss", 1.0)))


def rate(text: str) -> float:
    """Bit per second of `384k`, `7.2M`, `1G` or `9600`.

    Raises:
        ScenarioError: it is no rate.
    """
    found = _RATE.fullmatch(text.strip())
    if found is None:
        raise ScenarioError(f"{text!r} is no rate; one looks like 384k, 7.2M or 9600, in bit/s")
    return float(found[1]) * {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}[found[2].lower()]
