"""Parse the clear IKE_SA_INIT messages of many handshakes, each distinct form once.

The handshakes of a testbed usually differ only in SPIs, nonces, key exchange data, cookies, NAT detection hashes and
certificate requests. Messages whose other bytes are the same have the same *form*; only one message of each form is
parsed.
"""

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ikeanalyze import core
from ikeanalyze.analysis.exchanges.nat import NatClaims, encode_endpoints, locate_nat_hashes
from ikeanalyze.analysis.grouping import argsort_stable
from ikeanalyze.analysis.messages.association import is_init
from ikeanalyze.analysis.messages.datagrams import Datagrams
from ikeanalyze.capture.arrays import (
    BoolArray,
    Int64Array,
    UInt8Array,
    UInt32Array,
    UInt64Array,
    read_struct_array,
)
from ikeanalyze.capture.buffers import MessageBytes
from ikeanalyze.capture.decode.ip import strip_capture_numbers
from ikeanalyze.wire.header import SPI_BYTES
from ikeanalyze.wire.ikev2.message import InitMessage, parse_init, parse_payloads
from ikeanalyze.wire.registries.ikev2 import PayloadType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType

_Number = TypeVar("_Number", np.int64, np.int8)

#: Notifies whose data do not belong to the form.
_VARYING_NOTIFIES: Final = frozenset(
    {NotifyType.NAT_DETECTION_SOURCE_IP, NotifyType.NAT_DETECTION_DESTINATION_IP, NotifyType.COOKIE}
)
#: Messages of one length are compared with at most this many forms; those that fit none are parsed one by one.
_MAX_FORMS: Final = 64
#: Number of messages compared at once, so small that their bytes stay in the processor's cache.
_BATCH: Final = 2048


class InitMessages(Struct):
    """The IKE_SA_INIT messages of captures, grouped by form. (messages,) each"""

    rows: Int64Array  # of the datagrams, ascending
    form: Int64Array  # index into `views`
    views: list[InitMessage]  # one message of each form, with its own nonce and hashes
    #: Whether the address of the sender, and of the receiver, differs from the NAT detection hash (see `nat`):
    #: 1 or 0; -1: the message has no hash.
    sender_differs: npt.NDArray[np.int8]
    receiver_differs: npt.NDArray[np.int8]

    def look_up(self, values: npt.NDArray[_Number], rows: Int64Array) -> npt.NDArray[_Number]:
        """Return the values for these rows of datagrams; -1 for row -1. `values` has one for each message."""
        return self.take(values, self.find(rows))

    def find(self, rows: Int64Array) -> Int64Array:
        """Return the places of the messages in these rows of datagrams; -1 for row -1."""
        return np.where(rows < 0, -1, np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1))

    def take(self, values: npt.NDArray[_Number], places: Int64Array) -> npt.NDArray[_Number]:
        """Return the values at these places; -1 for place -1. `values` has one for each message."""
        if not len(values):
            return np.full(len(places), -1, values.dtype)
        return np.where(places < 0, values.dtype.type(-1), values[places])


def parse_init_messages(
    datagrams: Datagrams, clear: MessageBytes, ipv6: Sequence[bytes], early: "InitReadings | None" = None
) -> InitMessages:
    """Parse one message of each form of the IKE_SA_INIT and IKE_SESSION_RESUME messages of IKEv2 among the datagrams.

    `clear` has their bytes; `ipv6` are the addresses that the address codes stand for; `early` has read some of them.
    """
    rows = np.flatnonzero(is_init(datagrams) & ~datagrams.is_ikev1)
    if early is None:
        return _parse_rows(rows, datagrams, clear, ipv6)
    known, form, sender_differs, receiver_differs = early.look_up(datagrams.datagram[rows])
    views = early.parse_samples()
    if known.all():
        return InitMessages(rows, form, views, sender_differs, receiver_differs)
    others = _parse_rows(rows[~known], datagrams, clear, ipv6)
    form[~known] = others.form + len(views)
    sender_differs[~known], receiver_differs[~known] = others.sender_differs, others.receiver_differs
    return InitMessages(rows, form, views + others.views, sender_differs, receiver_differs)


def _parse_rows(rows: Int64Array, datagrams: Datagrams, clear: MessageBytes, ipv6: Sequence[bytes]) -> InitMessages:
    """Parse the messages in these rows of the datagrams."""
    begin, size = clear.places(datagrams.datagram[rows])
    reader = _FormReader(clear.heap, begin, len(rows))
    order = argsort_stable(size)
    for same_size in np.split(order, np.flatnonzero(np.diff(size[order])) + 1):
        if len(same_size) and core.compiled is not None:
            reader.read_compiled(same_size, int(size[same_size[0]]))
        elif len(same_size):
            reader.read(same_size, int(size[same_size[0]]))
    if core.compiled is not None:
        sender_differs, receiver_differs = reader.compare_hashes(datagrams, rows, ipv6)
        return InitMessages(rows, reader.form, reader.views, sender_differs, receiver_differs)
    spis = read_struct_array(clear.heap, begin, np.dtype([("spis", "u1", 2 * SPI_BYTES)]))["spis"]
    sources = encode_endpoints(datagrams.source[rows], datagrams.source_port[rows], ipv6)
    destinations = encode_endpoints(datagrams.destination[rows], datagrams.destination_port[rows], ipv6)
    sender_differs = reader.source_claims.compare(spis, sources)
    receiver_differs = reader.destination_claims.compare(spis, destinations)
    return InitMessages(rows, reader.form, reader.views, sender_differs, receiver_differs)


class _Endpoints(Struct, frozen=True):
    """The address codes and ports of messages. (messages,) each"""

    source: UInt64Array
    source_port: npt.NDArray[np.uint16]
    destination: UInt64Array
    destination_port: npt.NDArray[np.uint16]
    ipv6: bytes  # the addresses of the codes


class _Form:
    """One form of messages: the bytes that all of them share, and the offsets of their hashes."""

    def __init__(self, index: int, sample: bytes) -> None:
        self.index = index
        self.sources = locate_nat_hashes(sample, NotifyType.NAT_DETECTION_SOURCE_IP)
        self.destinations = locate_nat_hashes(sample, NotifyType.NAT_DETECTION_DESTINATION_IP)
        self._data = sample
        self._sample = np.frombuffer(sample, np.uint8)
        belongs = _find_form_bytes(sample)
        self._mask = np.where(belongs, 0xFF, 0).astype(np.uint8)
        self._words = len(sample) // 8 * 8
        edges = np.flatnonzero(np.diff(belongs, prepend=False, append=False))
        self._low, self._high = edges[::2].copy(), edges[1::2].copy()  # of the ranges of these bytes

    def find(self, heap: UInt8Array, begin: Int64Array) -> BoolArray:
        """Return which of the messages, all as long as the sample, have this form; only with the core. (messages,)"""
        assert core.compiled is not None
        return core.compiled.fit_form(heap, begin, self._data, self._low, self._high)

    def compare_endpoints(
        self, heap: UInt8Array, begin: Int64Array, ends: "_Endpoints"
    ) -> Iterator[npt.NDArray[np.int8]]:
        """Whether sender and receiver differ from the hashes of each message of this form; only with the core.

        1 or 0; -1 without a hash. (messages,) each
        """
        assert core.compiled is not None
        sides = (
            (self.sources, ends.source, ends.source_port),
            (self.destinations, ends.destination, ends.destination_port),
        )
        for places, address, port in sides:
            if places:
                yield core.compiled.compare_nat_hashes(
                    heap, begin, np.array(places, np.int64), strip_capture_numbers(address), port, ends.ipv6
                )
            else:
                yield np.full(len(begin), -1, np.int8)

    def fits(self, matrix: UInt8Array) -> BoolArray:
        """Return which rows of the matrix, one message each, have this form. (rows,)"""
        # eight bytes at a time, then the few that are left
        words = self._words
        difference = matrix[:, :words].view(np.uint64) ^ self._sample[:words].view(np.uint64)
        difference &= self._mask[:words].view(np.uint64)
        different: BoolArray = np.any(difference, axis=1)
        different |= ((matrix[:, words:] ^ self._sample[words:]) & self._mask[words:]).any(axis=1)
        return ~different


class _FormReader:
    """Finds the forms of messages, length by length."""

    def __init__(self, heap: UInt8Array, begin: Int64Array, count: int) -> None:
        self.form = np.zeros(count, np.int64)
        self.views: list[InitMessage] = []
        self.source_claims, self.destination_claims = NatClaims(count), NatClaims(count)
        self._heap = heap
        self._begin = begin
        self._members: list[tuple[_Form, Int64Array]] = []  # of `read_compiled`: the messages of each form

    def read(self, rows: Int64Array, size: int) -> None:
        """Find the forms of messages that all have `size` bytes."""
        layout = np.dtype([("bytes", "u1", size)])
        forms: list[_Form] = []
        for low in range(0, len(rows), _BATCH):
            remaining = rows[low : low + _BATCH]
            if size:
                matrix = read_struct_array(self._heap, self._begin[remaining], layout)["bytes"]
            else:  # the bytes of these messages were not kept
                matrix = np.zeros((len(remaining), 0), np.uint8)
            for form in forms:
                remaining, matrix = self._match_form(form, remaining, matrix)
            while len(remaining):
                form = self._add_form(matrix[0].tobytes())
                if len(forms) < _MAX_FORMS:
                    forms.append(form)
                    remaining, matrix = self._match_form(form, remaining, matrix)
                else:
                    self._record(form, remaining[:1], matrix[:1])
                    remaining, matrix = remaining[1:], matrix[1:]

    def read_compiled(self, rows: Int64Array, size: int) -> None:
        """`read` with the compiled core."""
        forms = 0
        while len(rows):
            at = int(self._begin[rows[0]])
            form = self._add_form(self._heap[at : at + size].tobytes())
            forms += 1
            if forms <= _MAX_FORMS:
                fits = form.find(self._heap, self._begin[rows])
                members, rows = rows[fits], rows[~fits]
            else:
                members, rows = rows[:1], rows[1:]
            self.form[members] = form.index
            self._members.append((form, members))

    def compare_hashes(
        self, datagrams: Datagrams, rows: Int64Array, ipv6: Sequence[bytes]
    ) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]:
        """Whether sender and receiver differ from the hashes of each message, after `read_compiled`. (messages,) each

        `rows` are those of the messages among the datagrams.
        """
        book = b"".join(ipv6)
        differs = np.full((2, len(self.form)), -1, np.int8)
        for form, members in self._members:
            chosen = rows[members]
            ends = _Endpoints(
                source=datagrams.source[chosen],
                source_port=datagrams.source_port[chosen],
                destination=datagrams.destination[chosen],
                destination_port=datagrams.destination_port[chosen],
                ipv6=book,
            )
            for side, values in enumerate(form.compare_endpoints(self._heap, self._begin[members], ends)):
                differs[side, members] = values
        return differs[0], differs[1]

    def _add_form(self, sample: bytes) -> _Form:
        self.views.append(parse_init(sample))
        return _Form(len(self.views) - 1, sample)

    def _match_form(self, form: _Form, rows: Int64Array, matrix: UInt8Array) -> tuple[Int64Array, UInt8Array]:
        """Record the messages of this form; return the others."""
        fits = form.fits(matrix)
        if fits.all():
            self._record(form, rows, matrix)
            return rows[:0], matrix[:0]
        self._record(form, rows[fits], matrix[fits])
        return rows[~fits], matrix[~fits]

    def _record(self, form: _Form, rows: Int64Array, matrix: UInt8Array) -> None:
        self.form[rows] = form.index
        self.source_claims.add(rows, matrix, form.sources)
        self.destination_claims.add(rows, matrix, form.destinations)


class InitReadings:
    """Keeps what the core read in IKE_SA_INIT messages while it read a capture (`capture.buffers.MessageReadings`)."""

    def __init__(self) -> None:
        self.samples: list[bytes] = []  # one message of each form
        #: Datagram, form, and whether sender and receiver differ (see `InitMessages`) of the messages of each part.
        self._parts: list[tuple[UInt32Array, Int64Array, npt.NDArray[np.int8], npt.NDArray[np.int8]]] = []

    def parse_samples(self) -> list[InitMessage]:
        """Return the contents of one message of each form."""
        return [parse_init(sample) for sample in self.samples]

    def add(
        self,
        datagrams: UInt32Array,
        form: Int64Array,
        sender_differs: npt.NDArray[np.int8],
        receiver_differs: npt.NDArray[np.int8],
    ) -> None:
        """Add messages. (messages,) each"""
        self._parts.append((datagrams, form, sender_differs, receiver_differs))

    def renumber(self, number: Int64Array) -> None:
        """Give each datagram another number: `number[datagram]`."""
        self._parts = [
            (number[datagrams].astype(np.uint32), form, sender, receiver)
            for datagrams, form, sender, receiver in self._parts
        ]

    def look_up(
        self, datagrams: UInt32Array
    ) -> tuple[BoolArray, Int64Array, npt.NDArray[np.int8], npt.NDArray[np.int8]]:
        """Which of these n datagrams were read, and as in `InitMessages` the forms and which ends differ. (n,) each"""
        if not self._parts:
            nothing = np.full(len(datagrams), -1, np.int8)
            return np.zeros(len(datagrams), np.bool_), nothing.astype(np.int64), nothing, nothing.copy()
        known, form, sender, receiver = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        if np.array_equal(known, datagrams):  # as usual
            return np.ones(len(datagrams), np.bool_), form, sender, receiver
        order = np.argsort(known)
        place = order[np.minimum(np.searchsorted(known, datagrams, sorter=order), len(known) - 1)]
        return known[place] == datagrams, form[place], sender[place], receiver[place]


def _find_form_bytes(sample: bytes) -> BoolArray:
    """Return which bytes of a message belong to its form. (bytes,)"""
    belongs = np.ones(len(sample), np.bool_)
    belongs[: 2 * SPI_BYTES] = False
    for payload in parse_payloads(sample).payloads:
        begin, end = payload.offset + 4, payload.offset + 4 + len(payload.body)
        if payload.type == PayloadType.NOTIFY:
            varies = int.from_bytes(payload.body[2:4], "big") in _VARYING_NOTIFIES
            begin = begin + 4 if varies else end
        elif payload.type == PayloadType.KE:
            begin += 4  # the method and two reserved bytes belong to the form
        elif payload.type not in (PayloadType.NONCE, PayloadType.CERTREQ):
            begin = end
        belongs[begin:end] = False
    return belongs
