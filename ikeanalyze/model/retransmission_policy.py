"""Retransmission policies: how long an initiator waits after each transmission of a request.

A policy is a sequence of waits. After the n-th transmission the sender waits `waits[n - 1]` seconds; after the last wait
it gives up. So n waits are n - 1 retransmissions. RFC 7296, section 2.1 leaves the policy to the implementation; the
policies of strongSwan and libreswan follow their documentation and source.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, Final

import numpy as np

from ikeanalyze.io.toml import TomlFileError, read_toml
from ikeanalyze.model.arrays import Float64Array

#: Maximum retransmissions and seconds of a policy, so that a typing error does not send for a week.
_MAX_TRIES: Final = 50
_MAX_S: Final = 7200.0
_MIN_WAIT_S: Final = 0.001
#: Maximum retransmissions of a message in libreswan (MAXIMUM_RETRANSMITS_PER_EXCHANGE).
_LIBRESWAN_TRIES: Final = 12


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


def make_strongswan_policy(
    *, timeout: float = 4.0, base: float = 1.8, tries: int = 5, jitter: float = 0.0, limit: float = 0.0
) -> RetransmissionPolicy:
    """Make the policy of strongSwan: min(timeout * base ** n, limit) after the n-th transmission, counted from 0.

    Args:
        timeout: charon.retransmit_timeout, seconds.
        base: charon.retransmit_base.
        tries: charon.retransmit_tries, retransmissions.
        jitter: charon.retransmit_jitter, percent of each wait, 0 to 20.
        limit: charon.retransmit_limit, seconds; 0: none.

    Source: strongSwan's documentation, "Retransmission" (config/retransmission); the bound of the jitter is
    RETRANSMIT_JITTER_MAX in src/libcharon/sa/task_manager.h.
    """
    if not 0 <= jitter <= 20:
        raise PolicyError(f"jitter = {jitter:g} is not in the range of strongSwan, 0 to 20 percent")
    return make_exponential_policy(
        timeout=timeout, base=base, tries=tries, jitter=jitter, limit=limit, name="strongswan"
    )


def make_libreswan_policy(*, interval: float = 0.5, timeout: float = 60.0) -> RetransmissionPolicy:
    """Make the policy of libreswan: interval, interval, then doubled each time, until `timeout` has passed.

    The wait doubles as long as it is below the timeout, with at most twelve retransmissions. With the defaults: 0.5, 0.5,
    1, 2, 4, 8, 16 and 32 s.

    Args:
        interval: retransmit-interval, seconds.
        timeout: retransmit-timeout, seconds.

    Source: ipsec.conf(5), retransmit-interval and retransmit-timeout; programs/pluto/retransmit.c (double_delay and
    retransmit) for the repeated first wait.
    """
    _check_wait("interval", interval)
    _check_wait("timeout", timeout)
    waits = [interval]
    delay = interval
    while sum(waits) < timeout and len(waits) <= _LIBRESWAN_TRIES:
        if len(waits) > 1 and 2 * delay < timeout:
            delay *= 2
        waits.append(delay)
    return _check_duration("libreswan", waits, 0.0)


def make_exponential_policy(
    *,
    timeout: float = 1.0,
    base: float = 2.0,
    tries: int = 5,
    jitter: float = 0.0,
    limit: float = 0.0,
    name: str = "exponential",
) -> RetransmissionPolicy:
    """Make an exponential back-off: min(timeout * base ** n, limit) seconds after the n-th transmission, counted from 0.

    Args:
        timeout: seconds to wait after the first transmission.
        base: factor from each wait to the next, 1 to 10.
        tries: retransmissions, 0 to 50.
        jitter: maximum random reduction of each wait in percent, 0 to 100.
        limit: longest wait in seconds; 0: none.
        name: name of the policy.
    """
    _check_wait("timeout", timeout)
    if not 1 <= base <= 10:
        raise PolicyError(f"base = {base:g} is not in the range 1 to 10")
    if tries != int(tries) or not 0 <= tries <= _MAX_TRIES:
        raise PolicyError(f"tries = {tries:g} is not an integer in the range 0 to {_MAX_TRIES}")
    if not 0 <= jitter <= 100:
        raise PolicyError(f"jitter = {jitter:g} is not in the range 0 to 100 percent")
    if limit:
        _check_wait("limit", limit)
    waits = [min(timeout * base**number, limit or math.inf) for number in range(int(tries) + 1)]
    return _check_duration(name, waits, jitter / 100)


def make_table_policy(*, waits: Sequence[float] = ()) -> RetransmissionPolicy:
    """Make a policy from the seconds after each transmission."""
    if not isinstance(waits, list) or not 1 <= len(waits) <= _MAX_TRIES + 1:
        raise PolicyError(f"waits must be a list of 1 to {_MAX_TRIES + 1} numbers, seconds")
    for wait in waits:
        _check_wait("a wait", wait)
    return _check_duration("table", waits, 0.0)


_KINDS: Final[Mapping[str, Callable[..., RetransmissionPolicy]]] = {
    "strongswan": make_strongswan_policy,
    "libreswan": make_libreswan_policy,
    "exponential": make_exponential_policy,
    "table": make_table_policy,
}


def parse_policy(text: str) -> RetransmissionPolicy:
    """Parse a policy of the command line.

    Either `strongswan`, `libreswan` or `exponential`, optionally with parameters (`exponential:timeout=0.5,base=2,tries=4`),
    or the path of a TOML file with `kind` and its parameters; `kind = "table"` needs `waits = [1, 2, 4]`.

    Raises:
        PolicyError: the policy or file does not exist, or a parameter is invalid.
    """
    kind, _, rest = text.partition(":")
    if kind in _KINDS and kind != "table":
        parameters: dict[str, Any] = {}
        for part in filter(None, rest.split(",")):
            name, _, value = part.partition("=")
            name = name.strip()
            if name in parameters:
                raise PolicyError(f"{text}: {name} is given twice")
            try:
                parameters[name] = float(value)
            except ValueError:
                raise PolicyError(f"{text}: {part!r} is not a parameter such as tries=5") from None
        return _make_policy(text, kind, parameters)
    try:
        return _make_file_policy(text, read_toml(text))
    except OSError as error:
        raise PolicyError(
            f"{text}: neither {', '.join(name for name in _KINDS if name != 'table')} nor a readable file "
            f"({error.strerror})"
        ) from None
    except TomlFileError as error:
        raise PolicyError(f"{text}: {error}") from None


def _make_file_policy(path: str, parameters: dict[str, Any]) -> RetransmissionPolicy:
    kind = parameters.pop("kind", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise PolicyError(f"{path}: kind must be one of {', '.join(_KINDS)}")
    policy = _make_policy(path, kind, parameters)
    return RetransmissionPolicy(Path(path).stem, policy.waits, policy.jitter)


def _make_policy(where: str, kind: str, parameters: Mapping[str, Any]) -> RetransmissionPolicy:
    known = [name for name in signature(_KINDS[kind]).parameters if name != "name"]
    for name, value in parameters.items():
        if name not in known:
            raise PolicyError(f"{where}: {kind} has no {name!r}; it has {', '.join(known)}")
        if name != "waits" and not _is_number(value):
            raise PolicyError(f"{where}: {name} must be a number")
    try:
        return _KINDS[kind](**parameters)
    except PolicyError as error:
        raise PolicyError(f"{where}: {error}") from None


def _is_number(value: Any) -> bool:
    # TOML integers may be too large for a float
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9


def _check_wait(name: str, seconds: Any) -> None:
    if not _is_number(seconds):
        raise PolicyError(f"{name} is not a number of seconds in the range 0.001 to {_MAX_S:g}")
    if not _MIN_WAIT_S <= seconds <= _MAX_S:
        raise PolicyError(f"{name} = {seconds!r} is not in the range 0.001 to {_MAX_S:g} seconds")


def _check_duration(name: str, waits: Sequence[float], jitter: float) -> RetransmissionPolicy:
    if sum(waits) > _MAX_S:
        raise PolicyError(f"the waits add up to {sum(waits):,.0f} seconds; the limit is {_MAX_S:g}")
    return RetransmissionPolicy(name, tuple(map(float, waits)), jitter)
