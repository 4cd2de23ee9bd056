"""Injects faults: drops, duplicates, reorders or delays datagrams in both directions.

Sans-IO: takes datagrams with the time, and returns those that are due. Each fault is a rule that selects datagrams by
name, by probability, or by both:

    0.2                        each datagram, with a probability of 0.2
    IKE_INTERMEDIATE           each message of this exchange, its first transmission, all fragments
    IKE_INTERMEDIATE:2/3       the second fragment of messages in three fragments
    IKE_AUTH:response:x3       the response, its first three transmissions
    any:request:0.1            each datagram of requests, with a probability of 0.1

A rule without probability applies once to each message and fragment unless `xN` is given (`x*`: always), so that the
retransmission of a dropped message arrives.
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

#: Limit for the milliseconds that a reordered datagram waits for the next one.
HOLD_MS: Final = 100.0
#: Limit for the datagrams queued in one direction; more are dropped.
MAX_QUEUED: Final = 10_000
_MAX_DELAY_MS: Final = 60_000.0
_ALWAYS: Final = 1 << 30
_ANY_EXCHANGE: Final = "any"


class FaultError(ValueError):
    """An invalid fault; one line with the problem and the allowed values."""


class FaultKind(StrEnum):
    """What happens to a datagram."""

    DROP = "drop"
    DUPLICATE = "duplicate"
    REORDER = "reorder"  # delivered after the next one in the same direction
    DELAY = "delay"


@dataclass(frozen=True, slots=True)
class DatagramInfo:
    """What the header of a datagram shows."""

    ours: bool  # sent by us
    exchange_type: int
    message_id: int
    response: bool
    fragment: int | None  # fragment number, from 1
    fragments: int | None


@dataclass(frozen=True, slots=True)
class Fault:
    """One rule."""

    kind: FaultKind
    text: str  # as the user wrote it
    exchange_type: int | None = None  # None: any
    response: bool | None = None  # None: both
    fragment: int | None = None  # None: any, and unfragmented messages
    fragments: int | None = None
    message_id: int | None = None
    probability: float | None = None  # None: always
    times: int = 1  # per message and fragment; ignored with a probability
    delay_ns: int = 0

    @property
    def name(self) -> str:
        """Kind and selection, such as drop IKE_AUTH:response."""
        return f"{self.kind} {self.text}"

    def matches(self, info: DatagramInfo) -> bool:
        """Whether the rule selects such datagrams, before probability and count."""
        return (
            self.exchange_type in (None, info.exchange_type)
            and self.response in (None, info.response)
            and self.fragment in (None, info.fragment)
            and self.fragments in (None, info.fragments)
            and self.message_id in (None, info.message_id)
        )


def parse_fault(kind: FaultKind, text: str) -> Fault:
    """Parse a rule of the command line in the form above. A delay needs a time: IKE_AUTH:250ms.

    Raises:
        FaultError: the rule is invalid.
    """
    fields: dict[str, Any] = {}
    first, *rest = parts = text.split(":")
    is_exchange = first in ExchangeType.__members__
    if is_exchange:
        fields["exchange_type"] = int(ExchangeType[first])
    for part in rest if is_exchange or first == _ANY_EXCHANGE else parts:
        name, value = _parse_part(text, part)
        if fields.keys() & value.keys():
            raise FaultError(f"{text}: {name} is given twice")
        fields |= value
    if not fields and first != _ANY_EXCHANGE:
        raise FaultError(f"{text!r}: expected a fault such as 0.2, IKE_AUTH or IKE_INTERMEDIATE:2/3")
    if kind is FaultKind.DELAY and "delay_ns" not in fields:
        raise FaultError(f"{text}: a delay needs a time, as in {text}:250ms")
    if kind is not FaultKind.DELAY and "delay_ns" in fields:
        raise FaultError(f"{text}: a time is for delays only")
    if "probability" in fields and "times" in fields:
        raise FaultError(f"{text}: a probability and a number of times exclude each other")
    return Fault(kind, text, **fields)


_FRAGMENT: Final = re.compile(r"(\d{1,5})/(\d{1,5})")
_TIMES: Final = re.compile(r"x(\d{1,6}|\*)")
_MESSAGE_ID: Final = re.compile(r"id(\d{1,9})")
_DELAY: Final = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)ms")
_PROBABILITY: Final = re.compile(r"[01]|[01]?\.\d{1,12}")


def _parse_part(text: str, part: str) -> tuple[str, dict[str, Any]]:
    if part in ("request", "response"):
        return part, {"response": part == "response"}
    if match := _FRAGMENT.fullmatch(part):
        number, total = int(match[1]), int(match[2])
        if not 1 <= number <= total:
            raise FaultError(f"{text}: invalid fragment {part}")
        return "the fragment", {"fragment": number, "fragments": total}
    if match := _TIMES.fullmatch(part):
        return "how often", {"times": _ALWAYS if match[1] == "*" else int(match[1])}
    if match := _MESSAGE_ID.fullmatch(part):
        return "the message ID", {"message_id": int(match[1])}
    if (match := _DELAY.fullmatch(part)) and float(match[1]) <= _MAX_DELAY_MS:
        return "the time", {"delay_ns": round(float(match[1]) * 1e6)}
    if _PROBABILITY.fullmatch(part) and float(part) <= 1:
        return "the probability", {"probability": float(part)}
    raise FaultError(
        f"{text}: {part!r} is not allowed; allowed are an exchange such as IKE_AUTH, any, request, response, "
        f"a fragment (2/3), a message ID (id1), a probability (0.2), times (x2, x*), a delay up to {_MAX_DELAY_MS:g}ms"
    )


@dataclass(slots=True)
class _FaultQueue:
    queue: list[tuple[int, int, Any]] = field(default_factory=list)  # due time, sequence number, datagram
    held: list[tuple[int, Any]] = field(default_factory=list)  # latest due time, datagram


class FaultInjector:
    """Applies the rules."""

    def __init__(self, rules: Iterable[Fault] = (), seed: int | None = None) -> None:
        """`seed`: for reproducible faults."""
        self.rules = tuple(rules)
        self.match_counts: Counter[str] = Counter()  # datagrams by `Fault.name`
        self.overflowed = 0  # datagrams dropped because a queue was full
        self._random = random.Random(seed)
        self._count = 0
        self._seen: Counter[tuple[int, DatagramInfo]] = Counter()
        self._directions = {True: _FaultQueue(), False: _FaultQueue()}

    def add_datagram(self, item: Any, info: DatagramInfo, now_ns: int) -> None:
        """Add a datagram that is sent or has arrived."""
        direction = self._directions[info.ours]
        copies, delay, reordered = 1, 0, False
        for index, rule in enumerate(self.rules):
            if not self._applies(index, rule, info):
                continue
            self.match_counts[rule.name] += 1
            if rule.kind is FaultKind.DROP:
                return
            copies += rule.kind is FaultKind.DUPLICATE
            delay += rule.delay_ns
            reordered = reordered or rule.kind is FaultKind.REORDER
        released, direction.held = direction.held, []
        for _ in range(copies):
            if reordered:
                direction.held.append((now_ns + delay + round(HOLD_MS * 1e6), item))
            else:
                self._queue_datagram(direction, now_ns + delay, item)
        for _, held_item in released:
            if reordered:
                direction.held.append((now_ns, held_item))  # both are reordered: no further wait
            else:
                self._queue_datagram(direction, now_ns + delay, held_item)

    def pop_due(self, *, ours: bool, now_ns: int) -> list[Any]:
        """Return the datagrams that are due, in order."""
        direction = self._directions[ours]
        for until, item in [entry for entry in direction.held if entry[0] <= now_ns]:
            self._queue_datagram(direction, until, item)
        direction.held = [entry for entry in direction.held if entry[0] > now_ns]
        items = []
        while direction.queue and direction.queue[0][0] <= now_ns:
            items.append(heapq.heappop(direction.queue)[2])
        return items

    @property
    def next_ns(self) -> int | None:
        """When the next datagram is due; None: no datagram is queued."""
        times = [direction.queue[0][0] for direction in self._directions.values() if direction.queue]
        times += [until for direction in self._directions.values() for until, _ in direction.held]
        return min(times, default=None)

    def _queue_datagram(self, direction: _FaultQueue, due_ns: int, item: Any) -> None:
        if len(direction.queue) >= MAX_QUEUED:
            self.overflowed += 1
            return
        self._count += 1
        heapq.heappush(direction.queue, (due_ns, self._count, item))

    def _applies(self, index: int, rule: Fault, info: DatagramInfo) -> bool:
        if not rule.matches(info):
            return False
        if rule.probability is not None:
            return self._random.random() < rule.probability
        self._seen[index, info] += 1
        return self._seen[index, info] <= rule.times
