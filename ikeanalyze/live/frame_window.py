"""The frames and messages of the IKE SAs that have not ended, and of RADIUS around them.

An IKE SA has a number, its key: the initiator's SPI; for HIP a number made from both hosts, since HIP has no SPI; for
IKE SAs that a REDIRECT connects (RFC 5685) a number made from the initiator's address; `RADIUS_KEY` for RADIUS, which
no SPI assigns.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ikeanalyze.analysis.grouping import HASH_MULTIPLIER, find_group_starts
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt8Array, UInt32Array, UInt64Array
from ikeanalyze.capture.buffers import LAYOUT, Columns, FrameRows, MessageBytes, MessageStore
from ikeanalyze.capture.collector import FrameCollector
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.capture.decode.incomplete_datagrams import share_digests
from ikeanalyze.capture.decode.ip import FIRST_IPV6, AddressBook
from ikeanalyze.capture.decode.tunnel_book import NO_TUNNEL
from ikeanalyze.capture.frames import FrameStorage
from ikeanalyze.capture.protocol_numbers import INIT_EXCHANGES, PHASE1_EXCHANGES
from ikeanalyze.capture.traffic import CombinedFrames
from ikeanalyze.dataset.buckets.frame_buckets import find_redirected_spis
from ikeanalyze.live.ended_sas import EndedSas
from ikeanalyze.wire.header import FLAG_INITIATOR, FLAG_RESPONSE

#: The key of all RADIUS frames.
RADIUS_KEY: Final = np.uint64(0)
#: Number of the last packet before frames are numbered again.
_LAST_NUMBER: Final = 1 << 30
_KEY: Final = "key"
#: Columns of a message header that tell an IKE_SA_INIT.
_INIT_COLUMNS: Final = ("protocol", "exchange_type", "spi_i")
#: Makes the keys of IKE SAs that a REDIRECT connects differ from those of HIP.
_REDIRECT_SALT: Final = np.uint64(0xD6E8FEB86659FD93)


class DrainedRows(FrameRows):
    """Rows that the collector appends, and the window takes."""

    def __init__(self) -> None:
        super().__init__(LAYOUT)

    def take(self) -> Columns:
        """The rows since the last call, in order of their frames."""
        taken = _sort_by_number({name: column.copy() for name, column in self.columns().items()})
        self._count = 0
        return taken


class _LiveMessages(MessageStore):
    """The messages of the window; notes the IKE SAs that a REDIRECT connects."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.redirected: set[int] = set()  #: initiators' SPIs

    def add(
        self,
        datagrams: UInt32Array,
        buffer: UInt8Array,
        begin: Int64Array,
        end: Int64Array,
        clear: BoolArray,
        header: Mapping[str, Any],
    ) -> None:
        """Store messages."""
        super().add(datagrams, buffer, begin, end, clear, header)
        readable = np.flatnonzero(clear)
        if len(readable):
            columns = {name: header[name][readable] for name in _INIT_COLUMNS}
            self.redirected |= find_redirected_spis(buffer, begin[readable], end[readable], columns)


@dataclass(frozen=True, slots=True)
class SaTimes:
    """The IKE SAs of the window, as columns of one length in order of key."""

    key: UInt64Array
    first_ns: Int64Array  # time of the first frame
    last_ns: Int64Array
    frames: Int64Array

    def select(self, rows: BoolArray) -> "SaTimes":
        """Some of the IKE SAs."""
        return SaTimes(self.key[rows], self.first_ns[rows], self.last_ns[rows], self.frames[rows])


class FrameWindow:
    """Frames of the IKE SAs that have not ended."""

    def __init__(self, *, encrypted: bool) -> None:
        """`encrypted`: keep the bytes of encrypted messages too."""
        self._spis = None if encrypted else ()
        self.storage = FrameStorage(DrainedRows(), _LiveMessages(self._spis))
        self._redirected: set[int] = set()  # initiators' SPIs of IKE SAs that a REDIRECT connects
        self.late_frames = 0  # of IKE SAs that had ended
        self._rows: Columns = {**DrainedRows().take(), _KEY: np.zeros(0, np.uint64)}

    def __len__(self) -> int:
        return len(self._rows[_KEY])

    @property
    def has_radius(self) -> bool:
        """Whether there are frames of RADIUS."""
        return bool((self._rows[_KEY] == RADIUS_KEY).any())

    @property
    def datagrams(self) -> UInt32Array:
        """The messages that the frames carry, or parts of. (n,)"""
        datagrams: UInt32Array = self._rows["datagram"]
        return datagrams

    @property
    def numbers(self) -> UInt32Array:
        """The numbers of the frames. (n,)"""
        numbers: UInt32Array = self._rows["number"]
        return numbers

    @property
    def first_ns(self) -> int | None:
        """The time of the earliest frame; None: there are none."""
        return int(self._rows["time_ns"].min()) if len(self) else None

    def receive(self, ended: EndedSas) -> Columns:
        """Add the frames that were collected, except those of IKE SAs that have ended; return the added ones.

        A request that begins a handshake is not late: the initiator uses an SPI again.
        """
        rows = self.storage.rows
        assert isinstance(rows, DrainedRows)
        if not len(rows):
            return {}
        added: Columns = rows.take()
        added[_KEY] = self._make_keys(added)
        self._connect_redirected(added, ended)
        key = added[_KEY]
        late = ended.recognise(key) & (key != RADIUS_KEY)
        if late.any():
            again = np.unique(key[late & _begin_handshakes(added)])
            if len(again):
                ended.discard(again)
                self.remove(again)
                late &= ~np.isin(key, again)
            self.late_frames += int(late.sum())
            added = {name: column[~late] for name, column in added.items()}
        # IP fragments that waited for others come after later frames
        self._rows = _sort_by_number(
            {name: np.concatenate([column, added[name]]) for name, column in self._rows.items()}
        )
        return added

    def measure(self) -> SaTimes:
        """The times of the IKE SAs, without RADIUS."""
        key, time_ns = self._rows[_KEY], self._rows["time_ns"]
        order = np.argsort(key, kind="stable")
        order = order[np.searchsorted(key[order], RADIUS_KEY, side="right") :]
        if not len(order):
            none = np.zeros(0, np.int64)
            return SaTimes(key[order], none, none, none)
        start = np.flatnonzero(find_group_starts(key[order]))
        times = time_ns[order]
        return SaTimes(
            key=key[order][start],
            first_ns=np.minimum.reduceat(times, start),
            last_ns=np.maximum.reduceat(times, start),
            frames=np.diff(np.append(start, len(order))),
        )

    def find_keys(self, ends: Collection[tuple[int, int]]) -> UInt64Array:
        """The IKE SAs with frames from a source to a destination of `ends`, which are address codes; or some more."""
        if not ends:
            return self._rows[_KEY][:0]
        sources, destinations = (np.array(sorted(set(codes)), np.uint64) for codes in zip(*ends, strict=True))
        rows = np.isin(self._rows["source"], sources) & np.isin(self._rows["destination"], destinations)
        return np.unique(self._rows[_KEY][rows])

    def select(self, keys: UInt64Array | None) -> "WindowSelection":
        """The frames of IKE SAs; None: all frames."""
        key = self._rows[_KEY]
        rows = np.arange(len(key)) if keys is None else np.flatnonzero(np.isin(key, keys))
        return WindowSelection({name: column[rows] for name, column in self._rows.items()})

    def remove(self, keys: UInt64Array) -> None:
        """Remove the frames of IKE SAs."""
        self._keep(~np.isin(self._rows[_KEY], keys))

    def remove_radius(self, before_ns: int) -> None:
        """Remove the frames of RADIUS from before this time."""
        self._keep((self._rows[_KEY] != RADIUS_KEY) | (self._rows["time_ns"] >= before_ns))

    def get_spis(self, keys: UInt64Array) -> UInt64Array:
        """The SPIs of the initiators of IKE SAs."""
        return np.unique(self._rows["spi_i"][np.isin(self._rows[_KEY], keys)])

    def release(self) -> None:
        """Free the memory of the messages of frames that were removed."""
        datagrams = self.datagrams
        for store in (self.storage.messages.clear, self.storage.messages.encrypted):
            if len(store):
                store.keep(datagrams)
        if self._redirected:
            self._redirected &= set(self._rows["spi_i"].tolist())

    def renew(
        self, old: FrameCollector, make_collector: Callable[[FrameStorage, int, int], FrameCollector]
    ) -> FrameCollector:
        """Number frames, messages, addresses and tunnels again, as those that the window has; return a new collector.

        `make_collector` makes it from its storage, and the numbers of packets and messages that come before.
        """
        rows = self._rows
        datagrams, datagram = np.unique(rows["datagram"], return_inverse=True)
        ranks = np.arange(len(datagrams), dtype=np.uint32)
        messages = (_copy_messages(store, datagrams, ranks) for store in (old.messages.clear, old.messages.encrypted))
        self.storage = FrameStorage(DrainedRows(), _LiveMessages(self._spis, *messages))
        # the last packet gets this number, so that earlier ones can have smaller numbers
        new = make_collector(self.storage, min(old.packets, _LAST_NUMBER), len(datagrams))
        new.incomplete = set(
            ranks[np.isin(datagrams, np.fromiter(old.incomplete, np.uint32, len(old.incomplete)))].tolist()
        )
        number = rows["number"].astype(np.int64) - (old.packets - new.packets)
        tunnels, tunnel = np.unique(rows["tunnel"], return_inverse=True)
        names = [NO_TUNNEL if code == NO_TUNNEL else new.tunnels.add(old.tunnels.names[code - 1]) for code in tunnels]
        self._rows = {
            **rows,
            "datagram": ranks[datagram],
            "number": np.maximum(number, 1).astype(np.uint32),
            "tunnel": np.array(names, np.uint32)[tunnel],
            **{end: _translate(rows[end], old.book, new.book) for end in ("source", "destination")},
        }
        self._rows[_KEY] = self._make_keys(self._rows)  # some depend on addresses
        return new

    def _connect_redirected(self, added: Columns, ended: EndedSas) -> None:
        """Give IKE SAs that a new REDIRECT connects the same key."""
        messages = self.storage.messages
        assert isinstance(messages, _LiveMessages)
        if not messages.redirected:
            return
        spis = np.fromiter(messages.redirected, np.uint64)
        self._redirected |= messages.redirected
        messages.redirected = set()
        for rows in (self._rows, added):
            rows[_KEY] = self._make_keys(rows)
            ended.discard(np.unique(rows[_KEY][np.isin(rows["spi_i"], spis)]))  # of an earlier redirect

    def _make_keys(self, rows: Columns) -> UInt64Array:
        """The key of each frame. (n,)"""
        protocol = rows["protocol"]
        ends = rows["source"].astype(np.uint64), rows["destination"].astype(np.uint64)
        key = rows["spi_i"].astype(np.uint64)
        # messages outside of an IKE SA have no SPI; the key of RADIUS is not theirs
        key[key == RADIUS_KEY] = HASH_MULTIPLIER
        if self._redirected:
            again = np.isin(key, np.fromiter(self._redirected, np.uint64))
            initiator = np.where((rows["flags"] & FLAG_INITIATOR) != 0, *ends)
            key[again] = (initiator * HASH_MULTIPLIER ^ _REDIRECT_SALT)[again]
        hip = protocol == Protocol.HIP
        if hip.any():
            low, high = np.minimum(*ends), np.maximum(*ends)
            key[hip] = (low * HASH_MULTIPLIER ^ high)[hip] | np.uint64(1)
        key[protocol == Protocol.RADIUS] = RADIUS_KEY
        return key

    def _keep(self, rows: BoolArray) -> None:
        if not rows.all():
            self._rows = {name: column[rows] for name, column in self._rows.items()}


@dataclass(frozen=True, slots=True)
class WindowSelection:
    """Some frames of the window, with their keys."""

    rows: Columns

    @property
    def key(self) -> UInt64Array:
        """The key of each frame. (n,)"""
        return self.rows[_KEY]

    @property
    def spis(self) -> UInt64Array:
        """The SPIs of the initiators. (n,)"""
        return np.unique(self.rows["spi_i"])

    def make_traffic(self, collector: FrameCollector, last_ns: int) -> CombinedFrames:
        """The frames as input of the analysis; `last_ns` is the time up to which the capture was read.

        Datagrams are numbered in the order of their first frames.
        """
        columns: dict[str, npt.NDArray[Any]] = {name: self.rows[name].copy() for name in LAYOUT}
        datagrams, first, datagram = np.unique(columns["datagram"], return_index=True, return_inverse=True)
        rank = np.empty(len(datagrams), np.uint32)
        rank[np.argsort(first)] = np.arange(len(datagrams))
        columns["datagram"] = rank[datagram]
        clear = _copy_messages(collector.messages.clear, datagrams, rank)
        encrypted = _copy_messages(collector.messages.encrypted, datagrams, rank)
        lacking = rank[np.isin(datagrams, np.fromiter(collector.incomplete, np.uint32, len(collector.incomplete)))]
        incomplete = set(lacking.tolist())
        share_digests(columns, incomplete, clear)
        addresses, tunnels = collector.book.ipv6, collector.tunnels.names
        return CombinedFrames(
            columns,
            clear,
            encrypted,
            addresses,
            tunnels,
            np.array([last_ns], np.int64),
            incomplete,
            icmp_errors=collector.icmp_errors,
        )


def _sort_by_number(rows: Columns) -> Columns:
    """The frames in order of their numbers; those of one number remain in their order."""
    number = rows["number"]
    if not (number[1:] < number[:-1]).any():
        return rows
    order = np.argsort(number, kind="stable")
    return {name: column[order] for name, column in rows.items()}


def _translate(codes: UInt64Array, old: AddressBook, new: AddressBook) -> UInt64Array:
    """Address codes of one book as those of another, which gets the addresses. (n,)"""
    known, place = np.unique(codes, return_inverse=True)
    first = np.uint64(FIRST_IPV6)
    is_ipv6 = known >= first
    addresses = [old.ipv6[index] for index in (known[is_ipv6] - first).tolist()]
    translated = known.copy()
    if addresses:
        translated[is_ipv6] = new.encode(np.frombuffer(b"".join(addresses), "V16"))
    result: UInt64Array = translated[place]
    return result


def _copy_messages(
    store: MessageBytes, datagrams: npt.NDArray[np.uint32], numbers: npt.NDArray[np.uint32]
) -> MessageBytes:
    """The messages of these datagrams, under other numbers."""
    copied = MessageBytes()
    known, begin, size = store.entries()
    if len(known):
        chosen = np.flatnonzero(np.isin(known, datagrams))
        low = begin[chosen]
        copied.add(numbers[np.searchsorted(datagrams, known[chosen])], store.heap, low, low + size[chosen])
    return copied


def _begin_handshakes(rows: Columns) -> BoolArray:
    """Which frames are of a request that begins a handshake: IKE_SA_INIT, or phase 1 of IKEv1. (n,)"""
    exchange = rows["exchange_type"]
    init = (rows["protocol"] == Protocol.IKEV2) & np.isin(exchange, INIT_EXCHANGES)
    init &= (rows["flags"] & FLAG_RESPONSE) == 0
    phase1 = (rows["protocol"] == Protocol.IKEV1) & np.isin(exchange, PHASE1_EXCHANGES)
    return np.asarray((init | phase1) & (rows["spi_r"] == 0))
