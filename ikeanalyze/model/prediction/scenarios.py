"""Loads named links from TOML files, of ikeanalyze or of users.

description = "Description"
source = "Source of the values"
rtt_ms = 600            # round-trip time; optional, --rtt sets it
jitter_ms = 0
loss = 0.01             # share of frames, each direction
rate_up = "384k"        # bit/s from the initiator: a number, or text with k, M or G
rate_down = "7.2M"
mtu = 1280
drop_ip_fragments = false
aaa_rtt_ms = 10
[burst]
ms = 100                # mean duration of the bad state; or frames = 3
loss = 1.0              # in the bad state
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import Meta, Struct
from msgspec.structs import asdict

from ikeanalyze.io.toml import TomlFileError, decode_toml
from ikeanalyze.model.prediction.link import LossBurst

FOLDER: Final = Path(__file__).parent / "links"

_RATE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmMgG]?)(?:bit/s|bit|bps)?")

# `validate_link` checks the ranges, also of the values of the command line
_Number = Annotated[float, Meta(ge=-1e15, le=1e15, description="a number")]
_Integer = Annotated[int, Meta(ge=-(10**15), le=10**15, description="an integer")]


class LinkScenarioError(ValueError):
    """A scenario does not exist or cannot be used; the text has the file and the key."""


@dataclass(frozen=True, slots=True)
class LinkScenario:
    """A link from a file; `fields` are the fields of `LinkModel` that it sets."""

    name: str
    description: str
    source: str
    fields: Mapping[str, Any]


class _BurstTable(Struct):
    """Table `burst`."""

    ms: _Number | None = None
    frames: _Number | None = None
    loss: _Number = 1.0

    def __post_init__(self) -> None:
        if (self.ms is None) == (self.frames is None):
            raise ValueError("needs either ms or frames")


class _LinkTable(Struct):
    """The file; None: the key is missing."""

    description: str = ""
    source: str = ""
    rtt_ms: _Number | None = None
    jitter_ms: _Number | None = None
    loss: _Number | None = None
    rate_up: str | _Number | None = None
    rate_down: str | _Number | None = None
    mtu: _Integer | None = None
    drop_ip_fragments: bool | None = None
    aaa_rtt_ms: _Number | None = None
    burst: _BurstTable | None = None


def list_scenarios() -> list[str]:
    """Return the names of the scenarios of ikeanalyze."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_scenario(text: str) -> LinkScenario:
    """Read the scenario with this name, or the file at this path.

    Raises:
        LinkScenarioError: it does not exist, or is invalid.
    """
    path = FOLDER / f"{text}.toml" if text in list_scenarios() else Path(text)
    try:
        return _scenario(path.stem, decode_toml(str(path), _LinkTable))
    except (LinkScenarioError, TomlFileError) as error:
        raise LinkScenarioError(f"{text}: {error}") from None
    except OSError as error:
        raise LinkScenarioError(
            f"{text}: neither {', '.join(list_scenarios())} nor a readable file ({error.strerror})"
        ) from None


def _scenario(name: str, table: _LinkTable) -> LinkScenario:
    fields = {key: value for key, value in asdict(table).items() if value is not None}
    description, source = fields.pop("description"), fields.pop("source")
    for key in fields.keys() & {"rate_up", "rate_down"}:
        fields[key] = parse_rate(fields[key]) if isinstance(fields[key], str) else fields[key]
    if burst := table.burst:
        mean = burst.frames if burst.ms is None else burst.ms
        fields["burst"] = LossBurst(mean or 0.0, burst.ms is None, burst.loss)
    return LinkScenario(name, description, source, {"name": name, **fields})


def parse_rate(text: str) -> float:
    """Return the bit/s of `384k`, `7.2M`, `1G` or `9600`; `bit/s`, `bit` or `bps` may follow.

    Raises:
        LinkScenarioError: the rate is invalid.
    """
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise LinkScenarioError(f"invalid rate {text!r}; write it as 384k, 7.2M or 9600, in bit/s")
    return float(match[1]) * {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}[match[2].lower()]
