"""Loses frames at the receiver, after the capture point: on a schedule that a seed determines, or all of a kind.

nftables counts the frames with UDP or ESP that arrive (`numgen inc`), and drops those whose numbers are in a set. Other
frames, such as those of neighbour discovery, are neither counted nor dropped. The schedule begins anew with each
handshake: in handshake k, the n-th frame of a direction has the same fate in every run with the same seed, whatever
happened in the handshakes before.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ikeanalyze.lab.network.namespaces import Netns
from ikeanalyze.lab.scenario.links import Direction, LinkConditions
from ikeanalyze.model.prediction.link import LossBurst

#: Frames of a direction in the schedule of a handshake; those after them have the fate of the first ones again.
SCHEDULED_FRAMES: Final = 16_384
_IPV6_HEADER: Final = 40  # bytes
_ARRIVED: Final = "meta l4proto { udp, esp }"
_COUNTER: Final = re.compile(r"counter (\w+) \{\s*packets (\d+)")


def draw_lost_frames(loss: float, burst: LossBurst | None, key: str, count: int = SCHEDULED_FRAMES) -> list[int]:
    """Return the numbers of the lost frames, from 0, in order.

    Args:
        loss: mean share of lost frames.
        burst: bursts in frames, in the model of Gilbert and Elliott that `predict` uses; None: losses are independent.
        key: the same key gives the same losses, also in other versions of Python.
        count: number of frames.
    """
    if not loss:
        return []
    rng = random.Random(key)  # Python guarantees the same sequence of random() in all versions
    if burst is None:
        return [number for number in range(count) if rng.random() < loss]
    enter, leave = burst.compute_transitions(loss)
    bad = rng.random() < loss / burst.loss
    lost = []
    for number in range(count):
        bad = rng.random() < (1 - leave if bad else enter)
        if rng.random() < burst.loss and bad:
            lost.append(number)
    return lost


@dataclass(frozen=True, slots=True)
class ReceiverCounts:
    """What a receiver counted since the path was built, in frames."""

    arrived: int  # frames with UDP or ESP, those that were lost or dropped included
    lost: int  # by the schedule of the losses
    dropped: int  # of a kind that the path drops: IP fragments, large packets, a port


@dataclass(frozen=True, slots=True)
class ReceiverLosses:
    """The losses of one direction of a link, at the host that receives its frames."""

    host: Netns
    interface: str
    conditions: LinkConditions
    direction: Direction
    key: str  # seed and link
    link: str = "link"  # its name in the manifest

    def start(self, handshake: int) -> None:
        """Begin the schedule of a handshake (its number), instead of that of the one before."""
        # nftables adds what is missing, and does the whole text at once or not at all
        chain = f"netdev {self.interface} in"
        text = f"add table netdev {self.interface}\n"
        # named counters outlive the rules, which are replaced for each handshake
        text += "".join(f"add counter netdev {self.interface} {name}\n" for name in ("arrived", "lost", "dropped"))
        text += f'add chain {chain} {{ type filter hook ingress device "{self.interface}" priority 0; }}\n'
        text += f"flush chain {chain}\n"
        text += "".join(f"add rule {chain} {rule}\n" for rule in self._build_rules(handshake))
        self.host.run("nft", "-f", "-", stdin=text)

    def count_frames(self) -> ReceiverCounts:
        """Return what was counted since the first `start`.

        Raises:
            LabError: nftables does not answer.
        """
        listed = self.host.run("nft", "list", "counters", "table", "netdev", self.interface)
        packets = {name: int(count) for name, count in _COUNTER.findall(listed)}
        return ReceiverCounts(packets["arrived"], packets["lost"], packets["dropped"])

    def _build_rules(self, handshake: int) -> Iterator[str]:
        yield f"{_ARRIVED} counter name arrived"
        loss = self.conditions.get_direction(self.direction).loss
        lost = draw_lost_frames(loss, self.conditions.burst, f"{self.key} {self.direction} {handshake}")
        if lost:
            counted = f"{_ARRIVED} numgen inc mod {SCHEDULED_FRAMES}"
            yield f"{counted} {{ {', '.join(_format_intervals(lost))} }} counter name lost drop"
        if self.conditions.drops_frames(self.direction):
            yield from self._build_drop_rules()

    def _build_drop_rules(self) -> Iterator[str]:
        if self.conditions.drop_ip_fragments:
            yield "ip frag-off & 0x3fff != 0 counter name dropped drop"
            yield "exthdr frag exists counter name dropped drop"
        if size := self.conditions.drop_larger_than:
            yield f"{_ARRIVED} ip length > {size} counter name dropped drop"
            # IPv6's length is that of the payload
            yield f"{_ARRIVED} ip6 length > {max(size - _IPV6_HEADER, 0)} counter name dropped drop"
        if port := self.conditions.drop_port:
            yield f"udp dport {port} counter name dropped drop"
            yield f"udp sport {port} counter name dropped drop"


def _format_intervals(numbers: Sequence[int]) -> Iterator[str]:
    """Format increasing numbers as nftables intervals: `3`, `5-7`."""
    first = last = numbers[0]
    for number in (*numbers[1:], None):
        if number == last + 1:
            last = number
            continue
        yield str(first) if first == last else f"{first}-{last}"
        if number is not None:
            first = last = number
