"""Retransmission policies: how long an initiator waits after each transmission of a request.

A policy is a sequence of waits. After the n-th transmission the sender waits `waits[n - 1]` seconds; after the last
wait it gives up. So n waits are n - 1 retransmissions. RFC 7296, section 2.1 leaves the policy to the implementation;
the policies of strongSwan and libreswan follow their documentation and source.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
from msgspec import Meta, Struct

from ikeanalyze.io.toml import TomlFileError, decode_toml
from ikeanalyze.model.arrays import Float64Array

#: Limits, so that a typing error does not send for a week.
_MAX_TRIES: Final = 50
_MAX_S: Final = 7200.0
_MIN_WAIT_S: Final = 0.001
#: Maximum retransmissions of a message in libreswan (MAXIMUM_RETRANSMITS_PER_EXCHANGE).
_LIBRESWAN_TRIES: Final = 12

_Wait = Annotated[
    float, Meta(ge=_MIN_WAIT_S, le=_MAX_S, description=f"a number from {_MIN_WAIT_S:g} to {_MAX_S:g} seconds")
]


class PolicyError(ValueError):
    """A policy is unknown or invalid; the message has the allowed values."""


@dataclass(frozen=True, slots=True)
class RetransmissionPolicy:
    """When a request is retransmitted."""

    name: str  # as requested
    waits: tuple[float, ...]  # seconds after each transmission, at least one
    jitter: float = 0.0  # maximum random reduction of each wait, as a share from 0 to 1

    @property
    def tries(self) -> int:
        """Retransmissions before the sender gives up."""
        return len(self.waits) - 1

    def draw_timeouts(self, rng: np.random.Generator | None = None, count: int | None = None) -> Float64Array:
        """Return the seconds to wait after each transmission: (tries + 1,), or (count, tries + 1) for many requests.

        With `rng`, each wait is reduced by a uniform part in [0, jitter * wait).
        """
        waits = np.array(self.waits)
        shape = waits.shape if count is None else (count, len(waits))
        if rng is None or not self.jitter:
            return np.broadcast_to(waits, shape).copy()
        return waits * (1 - self.jitter * rng.random(shape))


class _Timers(Struct, tag_field="kind", forbid_unknown_fields=True):
    """Parameters of a policy; the name of the kind is the tag."""

    @property
    @abstractmethod
    def waits(self) -> Sequence[float]:
        """Seconds after each transmission."""

    def __post_init__(self) -> None:
        if sum(self.waits) > _MAX_S:
            raise ValueError(f"the waits add up to {sum(self.waits):,.0f} seconds; the limit is {_MAX_S:g}")

    def make_policy(self) -> RetransmissionPolicy:
        """Make the policy with the name of its kind."""
        kind = str(self.__struct_config__.tag)
        return RetransmissionPolicy(kind, tuple(map(float, self.waits)), getattr(self, "jitter", 0.0) / 100)


class ExponentialTimers(_Timers, tag="exponential"):
    """Exponential back-off: min(timeout * base ** n, limit) seconds after the n-th transmission, counted from 0."""

    timeout: _Wait = 1.0  # seconds after the first transmission
    base: Annotated[float, Meta(ge=1, le=10)] = 2.0  # factor from each wait to the next
    tries: Annotated[int, Meta(ge=0, le=_MAX_TRIES)] = 5  # retransmissions
    #: Maximum random reduction of each wait.
    jitter: Annotated[float, Meta(ge=0, le=100, description="a number from 0 to 100 percent")] = 0.0
    limit: Annotated[float, Meta(ge=0, le=_MAX_S)] = 0.0  # longest wait in seconds; 0: none

    @property
    def waits(self) -> Sequence[float]:
        """Seconds after each transmission."""
        return [min(self.timeout * self.base**number, self.limit or math.inf) for number in range(self.tries + 1)]

    def __post_init__(self) -> None:
        if 0 < self.limit < _MIN_WAIT_S:
            raise ValueError(f"limit must be 0 or at least {_MIN_WAIT_S:g} seconds")
        super().__post_init__()


class StrongswanTimers(ExponentialTimers, tag="strongswan"):
    """Policy of strongSwan: the settings charon.retransmit_timeout, _base, _tries, _jitter and _limit.

    Source: strongSwan's documentation, "Retransmission" (config/retransmission); the bound of the jitter is
    RETRANSMIT_JITTER_MAX in src/libcharon/sa/task_manager.h.
    """

    timeout: _Wait = 4.0
    base: Annotated[float, Meta(ge=1, le=10)] = 1.8
    tries: Annotated[int, Meta(ge=0, le=_MAX_TRIES)] = 5
    jitter: Annotated[float, Meta(ge=0, le=20, description="a number from 0 to 20 percent")] = 0.0
    limit: Annotated[float, Meta(ge=0, le=_MAX_S)] = 0.0


class LibreswanTimers(_Timers, tag="libreswan"):
    """Policy of libreswan: interval, interval, then doubled each time, until `timeout` has passed.

    The wait doubles as long as it is below the timeout, with at most twelve retransmissions. With the defaults: 0.5,
    0.5, 1, 2, 4, 8, 16 and 32 s.

    Source: ipsec.conf(5), retransmit-interval and retransmit-timeout; programs/pluto/retransmit.c (double_delay and
    retransmit) for the repeated first wait.
    """

    interval: _Wait = 0.5  # retransmit-interval, seconds
    timeout: _Wait = 60.0  # retransmit-timeout, seconds

    @property
    def waits(self) -> Sequence[float]:
        """Seconds after each transmission."""
        waits = [self.interval]
        delay = self.interval
        while sum(waits) < self.timeout and len(waits) <= _LIBRESWAN_TRIES:
            if len(waits) > 1 and 2 * delay < self.timeout:
                delay *= 2
            waits.append(delay)
        return waits


class TableTimers(_Timers, tag="table"):
    """Policy with the seconds after each transmission."""

    waits: Annotated[list[_Wait], Meta(min_length=1, max_length=_MAX_TRIES + 1)]


#: Kinds that need no file.
_KINDS: Final[Mapping[str, type[_Timers]]] = {
    "strongswan": StrongswanTimers,
    "libreswan": LibreswanTimers,
    "exponential": ExponentialTimers,
}


def parse_policy(text: str) -> RetransmissionPolicy:
    """Parse a policy of the command line.

    Either `strongswan`, `libreswan` or `exponential`, optionally with parameters
    (`exponential:timeout=0.5,base=2,tries=4`), or the path of a TOML file with `kind` and its parameters;
    `kind = "table"` needs `waits = [1, 2, 4]`.

    Raises:
        PolicyError: the policy or file does not exist, or a parameter is invalid.
    """
    kind, _, parameters = text.partition(":")
    try:
        if kind in _KINDS:
            return decode_toml(_parse_parameters(parameters), _KINDS[kind]).make_policy()
        any_kind: Any = StrongswanTimers | LibreswanTimers | ExponentialTimers | TableTimers
        policy: RetransmissionPolicy = decode_toml(text, any_kind).make_policy()
        return replace(policy, name=Path(text).stem)
    except OSError as error:
        raise PolicyError(f"{text}: neither {', '.join(_KINDS)} nor a readable file ({error.strerror})") from None
    except (TomlFileError, PolicyError) as error:
        raise PolicyError(f"{text}: {error}") from None


def _parse_parameters(text: str) -> dict[str, float]:
    parameters: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        name = name.strip()
        if name in parameters:
            raise PolicyError(f"{name} is given twice")
        try:
            number = float(value)
        except ValueError:
            raise PolicyError(f"{part!r} is not a parameter such as tries=5") from None
        parameters[name] = int(number) if number.is_integer() else number
    return parameters
