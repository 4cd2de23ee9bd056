"""Combines the frames of many small captures, so that they are analysed together.

A step of the analysis costs dozens of calls of numpy and polars for ten frames or ten thousand, so combining small
captures is faster. The captures stay distinguishable by their addresses (`ip.CAPTURE_BIT`) and datagrams, which are
numbered through all captures.
"""

import builtins
from typing import Final

import numpy as np
from msgspec import Struct, field

from ikeanalyze.capture.arrays import Int64Array
from ikeanalyze.capture.buffers import LAYOUT, Columns, FrameRows, MessageBytes, MessageReadings
from ikeanalyze.capture.decode.icmp import join_icmp_errors, make_no_icmp_errors
from ikeanalyze.capture.decode.ip import CAPTURE_BIT, MAX_CAPTURES, AddressBook
from ikeanalyze.capture.decode.tunnel_book import TunnelBook
from ikeanalyze.capture.frames import CaptureFrames

_ROW_BYTES: Final = sum(np.dtype(dtype).itemsize for dtype in LAYOUT.values())


class CombinedFrames(Struct):
    """The frames of one or more captures in sequence, with the fields of `CaptureFrames`."""

    columns: Columns
    clear: MessageBytes
    encrypted: MessageBytes
    addresses: list[builtins.bytes]  # IPv6 addresses of the address codes
    tunnels: list[str]  # name of each tunnel, from number 1 on
    last_ns: Int64Array  # time of the last packet of each capture; 0 for a capture without packets
    incomplete: set[int]
    readings: MessageReadings | None = None
    icmp_errors: Columns = field(default_factory=make_no_icmp_errors)


def single_capture(capture: CaptureFrames) -> CombinedFrames:
    """The frames of one capture as CombinedFrames."""
    last_ns = np.array([capture.last_ns or 0], np.int64)
    columns, addresses, tunnels = capture.columns, capture.addresses, capture.tunnels
    return CombinedFrames(
        columns,
        capture.clear,
        capture.encrypted,
        addresses,
        tunnels,
        last_ns,
        capture.incomplete,
        capture.readings,
        capture.icmp_errors,
    )


class CombinedFramesBuilder:
    """Builds CombinedFrames from captures."""

    def __init__(self) -> None:
        self._parts: list[Columns] = []  # of the captures with frames
        self._capture: list[int] = []  # the number of each of them
        self._first: list[int] = []  # the number of the first datagram of each
        self._clear, self._encrypted = MessageBytes(), MessageBytes()
        self._book = AddressBook()
        self._tunnels = TunnelBook()
        self._last_ns: list[int] = []
        self._incomplete: set[int] = set()
        self._datagrams = 0
        self._icmp_errors: list[Columns] = []

    def __len__(self) -> int:
        return len(self._last_ns)

    def add(self, capture: CaptureFrames) -> None:
        """Add the frames and messages of a capture. Its columns must not change before `build`."""
        assert len(self) < MAX_CAPTURES
        columns = capture.columns
        if len(columns["datagram"]):
            changed: Columns = {}
            if capture.addresses:
                codes = self._book.translation(capture.addresses)
                changed = {name: codes(columns[name]) for name in ("source", "destination")}
            if capture.tunnels:
                changed["tunnel"] = self._tunnels.translation(capture.tunnels)[columns["tunnel"]]
            self._parts.append({**columns, **changed} if changed else columns)
            self._capture.append(len(self))
            self._first.append(self._datagrams)
            capture.clear.load()
            for store, added in ((self._clear, capture.clear), (self._encrypted, capture.encrypted)):
                datagrams, begin, size = added.entries()
                if len(datagrams):
                    store.add(datagrams + np.uint32(self._datagrams), added.heap, begin, begin + size)
            self._incomplete.update(datagram + self._datagrams for datagram in capture.incomplete)
            self._datagrams += int(columns["datagram"].max()) + 1
            if len(capture.icmp_errors["number"]):
                self._icmp_errors.append(self._encode_icmp_errors(capture))
        self._last_ns.append(capture.last_ns or 0)

    def build(self) -> CombinedFrames:
        """The frames of all added captures."""
        last_ns = np.array(self._last_ns, np.int64)
        addresses, tunnels = self._book.ipv6, self._tunnels.names
        return CombinedFrames(
            self._join_columns(),
            self._clear,
            self._encrypted,
            addresses,
            tunnels,
            last_ns,
            self._incomplete,
            icmp_errors=join_icmp_errors(self._icmp_errors),
        )

    def _encode_icmp_errors(self, capture: CaptureFrames) -> Columns:
        """The errors of the capture that is being added, with addresses that distinguish the captures."""
        errors, codes = capture.icmp_errors, self._book.translation(capture.addresses)
        number = np.uint64(len(self)) << np.uint64(CAPTURE_BIT)
        return {**errors, **{name: codes(errors[name]) | number for name in ("sender", "source", "destination")}}

    def _join_columns(self) -> Columns:
        """The columns of all captures, with datagrams and addresses that distinguish the captures."""
        if not self._parts:
            return FrameRows(LAYOUT).columns()
        # a concatenation of all captures costs less than to copy each capture by itself
        columns = {name: np.concatenate([part[name] for part in self._parts]) for name in LAYOUT}
        rows = [len(part["datagram"]) for part in self._parts]
        columns["datagram"] += np.repeat(np.array(self._first, np.uint32), rows)
        number = np.repeat(np.array(self._capture, np.uint64) << np.uint64(CAPTURE_BIT), rows)
        columns["source"] |= number
        columns["destination"] |= number
        return columns


def retained_size(capture: CaptureFrames) -> int:
    """Bytes of memory that the frames and messages of a capture take."""
    return len(capture.columns["datagram"]) * _ROW_BYTES + capture.clear.stored_bytes + capture.encrypted.stored_bytes
