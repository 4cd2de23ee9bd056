"""The schedule of a generated capture: all frames as columns, before their bytes are generated."""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import patterns
from benchmarks.patterns import LINKS, NAMES, PROFILES, RECORD_HEADER, Template

Ints = npt.NDArray[np.int64]

START_US = 1_764_000_000_000_000
FILE_HEADER = 24

HANDSHAKES_PER_SECOND = 1000
RETRANSMITTED = 0.0242  # share of exchanges, so that 2 % of messages are retransmissions
TIMER_US = 1_000_000  # doubled for the second retransmission

ESP_PER_SECOND = 20_000
ESP_SIZES = (1438, 118)
ESP_SMALL = 0.03
OTHER_THAN_ESP = 0.001

LINK_SHARES = (0.97, 0.01, 0.02)  # of LINKS
BEHIND_NAT = 0.4


@dataclass(slots=True)
class Peers:
    """A row per IKE SA. Addresses are 16 bytes; those of IPv4 are the last four."""

    initiator: npt.NDArray[np.uint8]
    responder: npt.NDArray[np.uint8]
    ports: npt.NDArray[np.uint16]  # of the initiator: in place of 500, of 4500
    spis: npt.NDArray[np.uint64]  # SPIi, SPIr
    esp_spis: npt.NDArray[np.uint32]  # initiator to responder, responder to initiator
    link: npt.NDArray[np.int64]  # index in LINKS
    profile: npt.NDArray[np.int64]
    nat: npt.NDArray[np.bool_]


@dataclass(slots=True)
class Frames:
    """A row per frame."""

    time_us: Ints
    template: Ints
    peer: Ints  # row of Peers
    sequence: Ints  # of ESP
    copy_of: Ints  # row of the frame that this one repeats; -1: none

    def __len__(self) -> int:
        return len(self.time_us)


@dataclass(slots=True)
class Plan:
    templates: list[Template]
    peers: Peers
    frames: Frames

    @property
    def record_bytes(self) -> Ints:
        """By template."""
        return np.array([len(template.data) for template in self.templates], np.int64)

    def truth(self) -> dict[str, Any]:
        """The expected counts. Bytes are frame lengths, link header included."""
        number = self.frames.template
        size = self.record_bytes[number] - RECORD_HEADER
        again = self.frames.copy_of >= 0
        traffic = np.array([template.traffic for template in self.templates])[number]
        exchange = np.array([template.exchange for template in self.templates])[number]
        last = np.array([template.last for template in self.templates])[number]

        def count(rows: npt.NDArray[np.bool_]) -> dict[str, int]:
            ike = {"messages": int((rows & last).sum()), "frames": int(rows.sum())}
            return {**ike, "bytes": int(size[rows].sum())}

        def packets(rows: npt.NDArray[np.bool_]) -> dict[str, int]:
            return {"packets": int(rows.sum()), "bytes": int(size[rows].sum())}

        ike = traffic == "ike"
        return {
            "packets": len(self.frames),
            "bytes": int(size.sum()),
            "handshakes": len(np.unique(self.frames.peer[ike])),
            "ike": count(ike),
            "retransmitted": count(ike & again),
            "phases": {name: count(exchange == kind) for kind, name in NAMES.items()},
            "esp": packets(traffic == "esp"),
            "nat_keepalive": packets(traffic == "keepalive"),
        }


def peers(rng: np.random.Generator, count: int) -> Peers:
    """IKE SAs of four gateways; 40 % of the initiators share 64 addresses of NATs, which give any port."""
    nat = rng.random(count) < BEHIND_NAT
    link = rng.choice(len(LINKS), count, p=LINK_SHARES)
    initiator = rng.integers(0, 256, (count, 16), np.uint8)
    responder = rng.integers(0, 256, (count, 16), np.uint8)
    prefix = np.frombuffer(bytes.fromhex("20010db800000000"), np.uint8)
    gateway = rng.integers(1, 5, count, np.uint8)
    six = link == LINKS.index("ipv6")
    for address, last in ((initiator, None), (responder, gateway)):
        address[six, :8] = prefix
        if last is not None:
            address[:, 8:15] = 0
            address[:, 15] = last
    four = ~six
    initiator[four, 12] = 10
    initiator[four & nat, 12:15] = (198, 51, 100)
    initiator[four & nat, 15] = 1 + initiator[four & nat, 15] % 64
    responder[four, 12:15] = (192, 0, 2)
    ports = np.empty((count, 2), np.uint16)
    ports[:] = (500, 4500)
    mapped = rng.integers(1024, 65536, (count, 2), np.uint16)
    mapped[mapped == 4500] = 4501
    ports[nat] = mapped[nat]
    spis = rng.integers(1, 2**64, (count, 2), np.uint64)
    esp_spis = rng.integers(0x1000, 2**32, (count, 2), np.uint32)
    return Peers(initiator, responder, ports, spis, esp_spis, link, rng.integers(0, len(PROFILES), count), nat)


class Drawing:
    """Templates and columns under construction."""

    def __init__(self) -> None:
        self.templates: list[Template] = []
        self.parts: list[Frames] = []
        self.rows = 0

    def number(self, template: Template) -> int:
        self.templates.append(template)
        return len(self.templates) - 1

    def add(self, time_us: Ints, template: Ints, peer: Ints, copy_of: Ints | None = None) -> Ints:
        """Add rows; returns their numbers."""
        count = len(time_us)
        none = np.full(count, -1)
        self.parts.append(
            Frames(time_us, template, peer, np.zeros(count, np.int64), none if copy_of is None else copy_of)
        )
        self.rows += count
        return np.arange(self.rows - count, self.rows)

    def joined(self) -> Frames:
        parts = self.parts
        return Frames(
            np.concatenate([part.time_us for part in parts]),
            np.concatenate([part.template for part in parts]),
            np.concatenate([part.peer for part in parts]),
            np.concatenate([part.sequence for part in parts]),
            np.concatenate([part.copy_of for part in parts]),
        )


def take(frames: Frames, rows: Ints) -> Frames:
    """Select these rows in this order. A row that repeats another requires that row."""
    place = np.full(len(frames) + 1, -1)
    place[rows] = np.arange(len(rows))
    copy_of = np.where(frames.copy_of[rows] >= 0, place[frames.copy_of[rows]], -1)
    return Frames(frames.time_us[rows], frames.template[rows], frames.peer[rows], frames.sequence[rows], copy_of)


def by_time(frames: Frames) -> Frames:
    return take(frames, np.argsort(frames.time_us, kind="stable"))


def draw_handshakes(drawing: Drawing, rng: np.random.Generator, who: Peers, start_us: Ints) -> Ints:
    """All frames of a handshake for each of `who`; the times at which they end.

    The capture is taken near the responder. Where an exchange needs a retransmission, either the request was
    lost after the capture (one response follows in the end) or the response was (each request has one).
    """
    count = len(start_us)
    numbers = np.array(
        [
            [
                [
                    [[drawing.number(frame) for frame in frames] + [-1] * (3 - len(frames)) for frames in sides]
                    for sides in patterns.handshake(profile, link)
                ]
                for link in LINKS
            ]
            for profile in PROFILES
        ]
    )  # by profile, link, exchange, side, fragment
    kinds = numbers[who.profile, who.link]
    every = np.arange(count)
    rtt = (5000 + rng.gamma(2, 20_000, count)).astype(np.int64)
    time = start_us.copy()
    for exchange in range(3):
        failures = np.where(rng.random(count) < RETRANSMITTED, 1 + (rng.random(count) < 0.1), 0)
        answered_once = rng.random(count) < 0.5
        first_rows = np.full((2, 3, count), -1)
        end = time.copy()
        for attempt in range(3):
            sent_us = time + TIMER_US * (2**attempt - 1) + rng.integers(0, 500, count)
            gap = rng.integers(8, 60, count)
            for side in (0, 1):
                sent = attempt <= failures
                if side == 1:
                    sent &= ~answered_once | (attempt == failures)
                    sent_us = sent_us + 400 + rng.gamma(2, 400, count).astype(np.int64)
                for fragment in range(3):
                    row = every[sent & (kinds[:, exchange, side, fragment] >= 0)]
                    if not len(row):
                        continue
                    now = sent_us[row] + fragment * gap[row]
                    template = kinds[row, exchange, side, fragment]
                    made = drawing.add(now, template, row, first_rows[side, fragment, row])
                    first = first_rows[side, fragment, row] < 0
                    first_rows[side, fragment, row[first]] = made[first]
                    end[row] = np.maximum(end[row], now)
        time = end + rtt
    result: Ints = end
    return result


def ike_heavy(size: int, seed: int) -> Plan:
    """Only handshakes, as many complete ones as fit."""
    rng = np.random.default_rng(seed)
    count = size // 10_000 + 10
    who = peers(rng, count)
    start = START_US + np.cumsum(rng.exponential(1e6 / HANDSHAKES_PER_SECOND, count)).astype(np.int64)
    drawing = Drawing()
    draw_handshakes(drawing, rng, who, start)
    frames = drawing.joined()
    plan = Plan(drawing.templates, who, frames)
    weight = np.bincount(frames.peer, plan.record_bytes[frames.template], count)
    fit = int(np.searchsorted(np.cumsum(weight), size - FILE_HEADER, side="right"))
    plan.frames = by_time(take(frames, np.flatnonzero(frames.peer < max(fit, 1))))
    return plan


def esp_heavy(size: int, seed: int) -> Plan:
    """ESP, with one other packet in a thousand: the handshakes before it, and NAT keepalives."""
    rng = np.random.default_rng(seed)
    packets = size / (RECORD_HEADER + ESP_SIZES[0] * (1 - ESP_SMALL) + ESP_SIZES[1] * ESP_SMALL)
    seconds = max(packets / ESP_PER_SECOND, 10.0)
    count = max(1, round(packets * OTHER_THAN_ESP * 0.8 / 12.24))
    who = peers(rng, count)
    start = START_US + np.sort(rng.uniform(0, 0.4e6 * seconds, count)).astype(np.int64)
    drawing = Drawing()
    ready = draw_handshakes(drawing, rng, who, start) + 1000
    end_us = max(START_US + int(seconds * 1e6), int(ready.max()) + 1_000_000)

    mapped = np.flatnonzero(who.nat)
    if len(mapped):
        alive = np.array([drawing.number(patterns.keepalive(link)) for link in LINKS])
        peer = rng.choice(mapped, max(1, round(packets * OTHER_THAN_ESP * 0.2)))
        time = ready[peer] + (rng.random(len(peer)) * (end_us - ready[peer])).astype(np.int64)
        drawing.add(time, alive[who.link[peer]], peer)

    sizes = np.array([len(size.data) for size in drawing.templates], np.int64)
    used = FILE_HEADER + sum(int(sizes[part.template].sum()) for part in drawing.parts)
    kinds = [
        drawing.number(patterns.esp(link, size, from_initiator=side, udp=udp))
        for link, udp, side, size in product(LINKS, (True, False), (True, False), ESP_SIZES)
    ]
    numbers = np.array(kinds).reshape(len(LINKS), 2, 2, 2)  # by link, UDP or not, side, size
    sizes = np.array([len(size.data) for size in drawing.templates], np.int64)
    draws = int(packets * 1.02) + 10
    active = (end_us - ready).astype(np.float64)
    peer = rng.choice(count, draws, p=active / active.sum())
    bare = np.isin(peer, np.flatnonzero(~who.nat)[10::20])  # as IP protocol 50
    back = (rng.random(draws) < 0.6).astype(np.int64)
    small = (rng.random(draws) < ESP_SMALL).astype(np.int64)
    template = numbers[who.link[peer], bare.astype(np.int64), back, small]
    time = ready[peer] + (rng.random(draws) * (end_us - ready[peer])).astype(np.int64)
    fit = int(np.searchsorted(used + np.cumsum(sizes[template]), size, side="right"))
    drawing.add(time[:fit], template[:fit], peer[:fit])
    frames = by_time(drawing.joined())
    plan = Plan(drawing.templates, who, frames)
    number_esp(plan)
    return plan


def number_esp(plan: Plan) -> None:
    """Sequence numbers from 1, for each SA and direction."""
    kind = plan.frames.template
    esp = np.flatnonzero(np.array([template.traffic == "esp" for template in plan.templates])[kind])
    side = np.array([template.from_initiator for template in plan.templates])[kind[esp]]
    stream = plan.frames.peer[esp] * 2 + side
    order = np.argsort(stream, kind="stable")
    ranked = stream[order]
    begins = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
    lengths = np.diff(np.r_[begins, len(ranked)])
    plan.frames.sequence[esp[order]] = np.arange(len(ranked)) - np.repeat(begins, lengths) + 1


PLANS = {"ike-heavy": ike_heavy, "esp-heavy": esp_heavy}
