"""What goes wrong on the way, because we make it so: datagrams dropped, sent twice, held back or delayed, in both directions.

Sans-IO: it is given datagrams with the time and gives back what comes out by when. A fault is a rule. Which datagrams it
is for, it says by name, by chance, or by both:

    0.2                        each datagram, with a probability of 0.2
    IKE_INTERMEDIATE           each message of this exchange, its first transmission, all fragments
    IKE_INTERMEDIATE:2/3       the second fragment of messages in three
    IKE_AUTH:response:x3       the response, the first three times that it comes by
    any:request:0.1            each datagram of requests, with a probability of 0.1

What is named is met once for each message and fragment unless `xN` says otherwise (`x*`: always), so that a dropped message
gets through when it is sent again; what is left to chance is met whenever chance says so.
"""

import heapq
import random
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from ikeanalyze.wire.registries.ikev2 import ExchangeType

#: Milliseconds that a datagram is held back for another one to pass it, if none comes.
HELD_MS: Final = 100.0
#: Datagrams that may be on their way in one direction; more are dropped, as by a full queue.
MOST_QUEUED: Final = 10_000
_LONGEST_DELAY_MS: Final = 60_000.0
_ALWAYS: Final = 1 << 30
_ANY: Final = "any"


class FaultError(ValueError):
    """A fault that nobody can mean; one line that says what is wrong and what is allowed."""


class FaultKind(StrEnum):
    """What happens to a datagram."""

    DROP = "drop"
    DUPLICATE = "duplicate"
    REORDER = "reorder"  # the next one in the same direction passes it
    DELAY = "delay"


@dataclass(frozen=True, slots=True)
class DatagramInfo:
    """What a datagram is, as far as its header tells."""

    ours: bool  # sent by us
    exchange_type: int
    message_id: int
    response: bool
    fragment: int | None  # fragment number, from 1
    fragments: int | None


@dataclass(frozen=True, slots=True)
class Fault:
    """One rule."""

    what: FaultKind
    text: str  # as the user wrote it
    exchange_type: int | None = None  # None: any
    response: bool | None = None  # None: both
    fragment: int | None = None  # None: any, and messages that are not cut
    fragments: int | None = None
    message_id: int | None = None
    probability: float | None = None  # None: whenever the rest fits
    times: int = 1  # for each message and fragment; with a probability there is no bound
    delay_ns: int = 0

    @property
    def name(self) -> str:
        """What happens, and to which: drop IKE_AUTH:response."""
        return f"{self.what} {self.text}"

    def matches(self, about: DatagramInfo) -> bool:
        """Whether the rule is for such a datagram, chance and count apart."""
        return (
            self.exchange_type in (None, about.exchange_type)
            and self.response in (None, about.response)
            and self.fragment in (None, about.fragment)
            and self.fragments in (None, about.fragments)
            and self.message_id in (None, about.message_id)
        )


def parse_fault(what: FaultKind, text: str) -> Fault:
    """A rule as a command line has it; see above for the forms. A delay needs a time as well: IKE_AUTH:250ms.

    Raises:
        FaultError: it is no such rule.
    """
    given: dict[str, Any] = {}
    first, *rest = parts = text.split(":")
    if first in ExchangeType.__members__:
        given["exchange_type"] = int(ExchangeType[first])
    elif first == _ANY:
        pass
    else:
        rest = parts
    for part in rest:
        name, value = _part(text, part)
        if given.keys() & value.keys():
            raise FaultError(f"{text}: {name} is said twice")
        given |= value
    if not given and first != _ANY:
        raise FaultError(f"{text!r} names nothing; it looks like 0.2, IKE_AUTH or IKE_INTERMEDIATE:2/3")
    if what is FaultKind.DELAY and "delay_ns" not in given:
        raise FaultError(f"{text}: a delay needs a time, as in {text}:250ms")
    if what is not FaultKind.DELAY and "delay_ns" in given:
        raise FaultError(f"{text}: a time is for delays only")
    if "probability" in given and "times" in given:
        raise FaultError(f"{text}: a probability and a number of times exclude each other")
    return Fault(what, text, **given)


_FRAGMENT: Final = re.compile(r"(\d{1,5})/(\d{1,5})")
_TIMES: Final = re.compile(r"x(\d{1,6}|\*)")
_MESSAGE: Final = re.compile(r"id(\d{1,9})")
_TIME: Final = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)ms")
_CHANCE: Final = re.compile(r"[01]|[01]?\.\d{1,12}")


def _part(text: str, part: str) -> tuple[str, dict[str, Any]]:
    if part in ("request", "response"):
        return part, {"response": part == "response"}
    if match := _FRAGMENT.fullmatch(part):
        number, total = int(match[1]), int(match[2])
        if not 1 <= number <= total:
            raise FaultError(f"{text}: there is no fragment {part}")
        return "the fragment", {"fragment": number, "fragments": total}
    if match := _TIMES.fullmatch(part):
        return "how often", {"times": _ALWAYS if match[1] == "*" else int(match[1])}
    if match := _MESSAGE.fullmatch(part):
        return "the message ID", {"message_id": int(match[1])}
    if (match := _TIME.fullmatch(part)) and float(match[1]) <= _LONGEST_DELAY_MS:
        return "the time", {"delay_ns": round(float(match[1]) * 1e6)}
    if _CHANCE.fullmatch(part) and float(part) <= 1:
        return "the probability", {"probability": float(part)}
    raise FaultError(
        f"{text}: {part!r} is none of: an exchange such as IKE_AUTH, any, request, response, a fragment (2/3), a message ID "
        f"(id1), a probability (0.2), times (x2, x*), a delay up to {_LONGEST_DELAY_MS:g}ms"
    )


@dataclass(slots=True)
class _FaultQueue:
    queue: list[tuple[int, int, Any]] = field(default_factory=list)  # when it comes out, its number, what it is
    held: list[tuple[int, Any]] = field(default_factory=list)  # until when at the latest, for the next to pass


class FaultInjector:
    """The rules at work."""

    def __init__(self, rules: Iterable[Fault] = (), seed: int | None = None) -> None:
        """`seed`: so that the same datagrams meet the same faults."""
        self.rules = tuple(rules)
        self.met: Counter[str] = Counter()  # datagrams by rule, as `Fault.name` has it
        self.overflowed = 0  # datagrams dropped because too many were on their way
        self._random = random.Random(seed)
        self._count = 0
        self._seen: Counter[tuple[int, DatagramInfo]] = Counter()
        self._ways = {True: _FaultQueue(), False: _FaultQueue()}

    def add_datagram(self, item: Any, about: DatagramInfo, now_ns: int) -> None:
        """A datagram sets out, or arrives."""
        way = self._ways[about.ours]
        copies, delay, reordered = 1, 0, False
        for place, rule in enumerate(self.rules):
            if not self._meets(place, rule, about):
                continue
            self.met[rule.name] += 1
            if rule.what is FaultKind.DROP:
                return
            copies += rule.what is FaultKind.DUPLICATE
            delay += rule.delay_ns
            reordered = reordered or rule.what is FaultKind.REORDER
        passed, way.held = way.held, []
        for _ in range(copies):
            if reordered:
                way.held.append((now_ns + delay + round(HELD_MS * 1e6), item))
            else:
                self._enter(way, now_ns + delay, item)
        for _, waiting in passed:
            if reordered:
                way.held.append((now_ns, waiting))  # it has waited long enough
            else:
                self._enter(way, now_ns + delay, waiting)

    def pop_due(self, *, ours: bool, now_ns: int) -> list[Any]:
        """What comes out by now, in order."""
        way = self._ways[ours]
        for until, item in [entry for entry in way.held if entry[0] <= now_ns]:
            self._enter(way, until, item)
        way.held = [entry for entry in way.held if entry[0] > now_ns]
        out = []
        while way.queue and way.queue[0][0] <= now_ns:
            out.append(heapq.heappop(way.queue)[2])
        return out

    @property
    def next_ns(self) -> int | None:
        """When something comes out next; None: nothing is on its way."""
        times = [way.queue[0][0] for way in self._ways.values() if way.queue]
        times += [until for way in self._ways.values() for until, _ in way.held]
        return min(times, default=None)

    def _enter(self, way: _FaultQueue, at_ns: int, item: Any) -> None:
        if len(way.queue) >= MOST_QUEUED:
            self.overflowed += 1
            return
        self._count += 1
        heapq.heappush(way.queue, (at_ns, self._count, item))

    def _meets(self, place: int, rule: Fault, about: DatagramInfo) -> bool:
        if not rule.matches(about):
            return False
        if rule.probability is not None:
            return self._random.random() < rule.probability
        self._seen[place, about] += 1
        return self._seen[place, about] <= rule.times
