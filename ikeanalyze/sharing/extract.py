"""Chooses the packets of handshakes, and describes each in a packet comment.

The frames table has all frames with IKE messages: retransmissions, IP fragments and duplicates of the capture too. A
handshake over TCP also needs the segments without an IKE message, because message boundaries follow from the stream.

ESP packets have no link to their IKE SA but the hosts: an ESP SA belongs to the handshake of the same two hosts that
was the last one to begin before the first packet of the ESP SA. NAT keepalives belong to the last one before them.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.capture.accounting import PacketCategory
from ikeanalyze.capture.frames import Progress
from ikeanalyze.capture.write.host_packets import HostPacket, find_host_packets
from ikeanalyze.render.core.columns import cast_text_columns
from ikeanalyze.render.ladder.text import format_message_label

_TCP: Final = "TCP 4500"
_ESP_KINDS: Final = (PacketCategory.ESP, PacketCategory.NAT_KEEPALIVE)

#: Address and port; no port: an IP protocol without ports.
_Endpoint = tuple[str, int | None]
_Pair = frozenset[_Endpoint]
_Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ExtractOptions:
    """Which packets of a handshake are chosen, besides those with its IKE messages."""

    radius: bool = False  # RADIUS packets that were matched with the handshake
    esp: bool = False  # ESP packets of its IKE SA, and NAT keepalives
    annotate: bool = False  # describe each packet in a comment


@dataclass(frozen=True, slots=True)
class ChosenPackets:
    """The packets of some handshakes."""

    numbers: list[int]  # in ascending order
    comments: dict[int, str]  # by packet number; empty if they were not asked for
    radius_left_out: int  # RADIUS packets of the handshakes that were not asked for
    shared: list[int] = field(default_factory=list)  # further handshakes on the same TCP connections


class PacketChooser:
    """Chooses the packets of handshakes of one capture."""

    def __init__(
        self,
        path: str,
        analysis: Analysis,
        options: ExtractOptions,
        ports: Collection[int] = (),
        progress: Progress | None = None,
    ) -> None:
        """Read the packets without IKE messages if they are needed; errors: see `find_host_packets`."""
        self._options = options
        self._frames = cast_text_columns(analysis.frames)
        self._messages = {row["message"]: row for row in cast_text_columns(analysis.messages).iter_rows(named=True)}
        self._first_frames = {_get_key(row): row["first_frame"] for row in reversed(self._messages.values())}
        self._starts = _list_starts(self._frames, analysis.handshakes)
        self._others: list[HostPacket] = []
        ike = self._frames.filter(pl.col("protocol").str.starts_with("IKE"))
        in_tcp = ike.filter(pl.col("encapsulation") == _TCP)
        around = ike if options.esp else in_tcp
        if around.height:
            hosts = {*around["source"].unique().to_list(), *around["destination"].unique().to_list()}
            self._others = find_host_packets(path, hosts, ports, progress)
        self._owners = _find_owners(self._others, self._starts) if options.esp else {}

    def choose(self, handshakes: Collection[int]) -> ChosenPackets:
        """The packets of handshakes with these ids."""
        frames = self._frames.filter(pl.col("handshake").is_in(list(handshakes)))
        is_radius = pl.col("protocol") == "RADIUS"
        radius_left_out = 0
        if not self._options.radius:
            radius_left_out = frames.filter(is_radius)["number"].n_unique()
            frames = frames.filter(~is_radius)
        others = [*self._choose_segments(frames), *self._choose_esp(set(handshakes))]
        numbers = sorted({*frames["number"].to_list(), *(packet.number for packet in others)})
        comments = self._describe(frames, others, numbers) if self._options.annotate else {}
        return ChosenPackets(numbers, comments, radius_left_out, self._find_shared(frames, set(handshakes)))

    def _choose_segments(self, frames: pl.DataFrame) -> Iterator[HostPacket]:
        """The TCP segments of the connections of frames, up to the last of them; with ESP, to the end."""
        in_tcp = frames.filter(pl.col("encapsulation") == _TCP)
        last: dict[_Pair, int] = {}
        for row in in_tcp.iter_rows(named=True):
            pair = _get_pair(row)
            last[pair] = max(last.get(pair, 0), row["number"])
        for packet in self._others:
            if packet.kind == PacketCategory.TCP_ENCAPSULATION:
                end = last.get(_get_packet_pair(packet))
                if end is not None and (self._options.esp or packet.number <= end):
                    yield packet

    def _choose_esp(self, handshakes: set[int]) -> Iterator[HostPacket]:
        if self._options.esp:
            yield from (packet for packet in self._others if self._owners.get(packet.number) in handshakes)

    def _find_shared(self, frames: pl.DataFrame, handshakes: set[int]) -> list[int]:
        in_tcp = frames.filter(pl.col("encapsulation") == _TCP)
        pairs = {_get_pair(row) for row in in_tcp.iter_rows(named=True)}
        if not pairs:
            return []
        every = self._frames.filter(pl.col("encapsulation") == _TCP).iter_rows(named=True)
        on_them = {row["handshake"] for row in every if _get_pair(row) in pairs}
        return sorted(number for number in on_them - handshakes if number is not None)

    def _describe(self, frames: pl.DataFrame, others: Iterable[HostPacket], numbers: list[int]) -> dict[int, str]:
        """The comments. Packets are named by their numbers in the extract."""
        places = {number: place for place, number in enumerate(numbers, 1)}
        texts: dict[int, list[str]] = {}
        for packet in others:
            if packet.kind == PacketCategory.ESP:
                texts[packet.number] = [f"handshake {self._owners[packet.number]}, ESP of SPI 0x{packet.spi:08x}"]
            elif packet.kind == PacketCategory.NAT_KEEPALIVE:
                texts[packet.number] = [f"handshake {self._owners[packet.number]}, NAT keepalive"]
            else:
                texts.setdefault(packet.number, [])
        for row in frames.iter_rows(named=True):
            texts.setdefault(row["number"], []).append(self._describe_frame(row, places))
        source = "TCP segment of the connection without an IKE message of the chosen handshakes"
        return {
            number: f"{'; '.join(parts) or source}; packet {number} of the capture" for number, parts in texts.items()
        }

    def _describe_frame(self, frame: _Row, places: Mapping[int, int]) -> str:
        message = self._messages.get(frame["message"])
        parts = [f"handshake {frame['handshake']}"]
        if message is not None:
            parts.append(format_message_label(message))
        if frame["fragment"] is not None:
            total = "" if frame["fragments"] is None else f" of {frame['fragments']}"
            parts.append(f"fragment {frame['fragment']}{total}")
        if frame["ip_fragment"]:
            parts.append("IP fragment")
        if message is not None and message["transmission"] > 1:
            first = places.get(self._first_frames.get(_get_key(message), 0))
            of_packet = "" if first is None else f" of packet {first}"
            parts.append(f"retransmission {message['transmission'] - 1}{of_packet}")
        if frame["capture_duplicate"]:
            parts.append("duplicate of the capture")
        return ", ".join(parts)


def _get_key(message: _Row) -> tuple[Any, ...]:
    """What the transmissions of a message have in common."""
    return tuple(message[name] for name in ("handshake", "exchange", "protocol", "sender", "kind", "message_id"))


def _get_pair(frame: _Row) -> _Pair:
    return frozenset(
        ((frame["source"], frame["source_port"]), (frame["destination"], frame["destination_port"])),
    )


def _get_packet_pair(packet: HostPacket) -> _Pair:
    return frozenset(((packet.source, packet.source_port), (packet.destination, packet.destination_port)))


def _list_starts(frames: pl.DataFrame, handshakes: pl.DataFrame) -> dict[_Pair, list[tuple[int, int]]]:
    """Start and id of the handshakes between each pair of endpoints, with and without ports, in order of time."""
    set_ups = handshakes.filter(~pl.col("rekeyed") & pl.col("start_ns").is_not_null())
    start_of = dict(set_ups.select("handshake", "start_ns").iter_rows())
    columns = ("handshake", "source", "source_port", "destination", "destination_port")
    rows = frames.filter(pl.col("protocol") != "RADIUS").select(columns).unique(maintain_order=True)
    starts: dict[_Pair, set[tuple[int, int]]] = {}
    for row in rows.iter_rows(named=True):
        if (start := start_of.get(row["handshake"])) is not None:
            bare = frozenset(((row["source"], None), (row["destination"], None)))
            for pair in (_get_pair(row), bare):
                starts.setdefault(pair, set()).add((start, row["handshake"]))
    return {pair: sorted(times) for pair, times in starts.items()}


def _find_owners(packets: Iterable[HostPacket], starts: Mapping[_Pair, list[tuple[int, int]]]) -> dict[int, int]:
    """The handshake of each ESP packet and NAT keepalive, by packet number."""
    owners: dict[int, int] = {}
    of_sa: dict[tuple[_Pair, int], int | None] = {}
    for packet in packets:
        if packet.kind not in _ESP_KINDS:
            continue
        pair = _get_packet_pair(packet)
        owner = _find_latest(starts.get(pair, ()), packet.time_ns)
        if packet.spi is not None:
            owner = of_sa.setdefault((pair, packet.spi), owner)
        if owner is not None:
            owners[packet.number] = owner
    return owners


def _find_latest(starts: Iterable[tuple[int, int]], time_ns: int) -> int | None:
    times = list(starts)
    place = bisect_right(times, time_ns, key=lambda entry: entry[0])
    return times[place - 1][1] if place else None
