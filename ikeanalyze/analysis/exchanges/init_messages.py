"""Parse the clear IKE_SA_INIT messages of many handshakes, each distinct form once.

The handshakes of a testbed usually differ only in SPIs, nonces, key exchange data, cookies and NAT detection hashes. So
a message is parsed, these fields are masked, and every message with the same other bytes has the same form.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from ikeanalyze.analysis.exchanges.nat import EndpointArray, NatClaims, encode_endpoints, locate_nat_hashes
from ikeanalyze.analysis.grouping import argsort_stable
from ikeanalyze.analysis.messages.association import is_init
from ikeanalyze.analysis.messages.datagrams import Datagrams
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt8Array, read_struct_array
from ikeanalyze.capture.buffers import MessageBytes
from ikeanalyze.wire.ikev2.message import InitMessage, parse_init, parse_payloads
from ikeanalyze.wire.registries.ikev2 import PayloadType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType

_Number = TypeVar("_Number", np.int64, np.int8)

#: Notifies whose data are masked.
_MASKED_NOTIFIES: Final = frozenset(
    {NotifyType.NAT_DETECTION_SOURCE_IP, NotifyType.NAT_DETECTION_DESTINATION_IP, NotifyType.COOKIE}
)
_SPIS: Final = 16
#: Messages of one length are compared with this many forms; others are parsed one by one.
_MAX_FORMS: Final = 64
#: Messages compared at once: their bytes stay in the processor's cache.
_BATCH: Final = 2048


@dataclass(slots=True)
class InitMessageForms:
    """Messages grouped by form."""

    form: Int64Array  # of each message: index into views
    views: list[InitMessage]  # of one message of each form: its nonce and hashes are that message's own
    #: Whether the address of the sender, and of the receiver, differs from the NAT detection hash (see `nat`):
    #: 1 or 0; -1: the message has no hash.
    sender_differs: npt.NDArray[np.int8]
    receiver_differs: npt.NDArray[np.int8]


def parse_init_messages(
    messages: MessageBytes, datagrams: npt.NDArray[np.integer], sources: EndpointArray, destinations: EndpointArray
) -> InitMessageForms:
    """Group the IKE_SA_INIT messages of datagrams by form and parse one of each.

    `sources` and `destinations` are the endpoints that each message was seen with.
    """
    begin, size = messages.places(datagrams)
    reader = _FormReader(messages.heap, begin, len(datagrams))
    order = argsort_stable(size)
    for rows in np.split(order, np.flatnonzero(np.diff(size[order])) + 1):
        if len(rows):
            reader.read(rows, int(size[rows[0]]))
    spis = read_struct_array(messages.heap, begin, np.dtype([("spis", "u1", _SPIS)]))["spis"]
    return InitMessageForms(
        reader.form, reader.views, reader.sent.compare(spis, sources), reader.received.compare(spis, destinations)
    )


@dataclass(slots=True)
class InitMessages:
    """The IKE_SA_INIT messages of a capture."""

    rows: Int64Array  # of the datagrams that they are, rising
    inits: InitMessageForms

    def forms(self, rows: Int64Array) -> Int64Array:
        """The form of datagrams' messages, -1 for a row of -1: index into the views."""
        return np.where(rows < 0, -1, self._pick(self.inits.form, rows))

    def sender_differs(self, rows: Int64Array) -> npt.NDArray[np.int8]:
        """`InitMessageForms.sender_differs` of datagrams' messages, -1 for a row of -1."""
        return np.where(rows < 0, np.int8(-1), self._pick(self.inits.sender_differs, rows))

    def receiver_differs(self, rows: Int64Array) -> npt.NDArray[np.int8]:
        """`InitMessageForms.receiver_differs` of datagrams' messages, -1 for a row of -1."""
        return np.where(rows < 0, np.int8(-1), self._pick(self.inits.receiver_differs, rows))

    def _pick(self, values: npt.NDArray[_Number], rows: Int64Array) -> npt.NDArray[_Number]:
        if not len(values):
            return np.full(len(rows), -1, values.dtype)
        return values[np.minimum(np.searchsorted(self.rows, rows), len(values) - 1)]


def parse_capture_init_messages(datagrams: Datagrams, clear: MessageBytes, ipv6: Sequence[bytes]) -> InitMessages:
    """Read all IKE_SA_INIT and IKE_SESSION_RESUME messages of IKEv2 among a capture's datagrams."""
    rows = np.flatnonzero(is_init(datagrams) & ~datagrams.is_ikev1)
    inits = parse_init_messages(
        clear,
        datagrams.datagram[rows],
        encode_endpoints(datagrams.source[rows], datagrams.source_port[rows], ipv6),
        encode_endpoints(datagrams.destination[rows], datagrams.destination_port[rows], ipv6),
    )
    return InitMessages(rows, inits)


class _Form:
    """One form of a message: what makes another message be of it, and where its hashes stand."""

    def __init__(self, index: int, sample: bytes, view: InitMessage) -> None:
        self.index = index
        self.sources = locate_nat_hashes(view, sample, NotifyType.NAT_DETECTION_SOURCE_IP)
        self.destinations = locate_nat_hashes(view, sample, NotifyType.NAT_DETECTION_DESTINATION_IP)
        self._sample = np.frombuffer(sample, np.uint8)
        self._mask = np.where(_counts(sample), 0xFF, 0).astype(np.uint8)
        self._words = len(sample) // 8 * 8

    def fits(self, matrix: UInt8Array) -> BoolArray:
        """Which rows are equal to the sample wherever its bytes count."""
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
        self.sent, self.received = NatClaims(count), NatClaims(count)
        self._heap = heap
        self._begin = begin

    def read(self, rows: Int64Array, size: int) -> None:
        """Find the forms of messages of `size` bytes."""
        layout = np.dtype([("bytes", "u1", size)])
        forms: list[_Form] = []
        for low in range(0, len(rows), _BATCH):
            remaining = rows[low : low + _BATCH]
            if size:
                matrix = read_struct_array(self._heap, self._begin[remaining], layout)["bytes"]
            else:  # a message that was not kept
                matrix = np.zeros((len(remaining), 0), np.uint8)
            for form in forms:
                remaining, matrix = self._match_form(form, remaining, matrix)
            while len(remaining):
                form = self._new(matrix[0].tobytes())
                if len(forms) < _MAX_FORMS:
                    forms.append(form)
                    remaining, matrix = self._match_form(form, remaining, matrix)
                else:
                    self._enter(form, remaining[:1], matrix[:1])
                    remaining, matrix = remaining[1:], matrix[1:]

    def _new(self, sample: bytes) -> _Form:
        view = parse_init(sample)
        self.views.append(view)
        return _Form(len(self.views) - 1, sample, view)

    def _match_form(self, form: _Form, rows: Int64Array, matrix: UInt8Array) -> tuple[Int64Array, UInt8Array]:
        """Record the messages of this form; return the others."""
        fits = form.fits(matrix)
        if fits.all():
            self._enter(form, rows, matrix)
            return rows[:0], matrix[:0]
        self._enter(form, rows[fits], matrix[fits])
        return rows[~fits], matrix[~fits]

    def _enter(self, form: _Form, rows: Int64Array, matrix: UInt8Array) -> None:
        self.form[rows] = form.index
        self.sent.add(rows, matrix, form.sources)
        self.received.add(rows, matrix, form.destinations)


def _counts(sample: bytes) -> BoolArray:
    """Which bytes of a message belong to its form."""
    counts = np.ones(len(sample), np.bool_)
    counts[:_SPIS] = False
    for payload in parse_payloads(sample).payloads:
        begin, end = payload.offset + 4, payload.offset + 4 + len(payload.body)
        if payload.type == PayloadType.NOTIFY:
            passed = int.from_bytes(payload.body[2:4], "big") in _MASKED_NOTIFIES
            begin = begin + 4 if passed else end
        elif payload.type == PayloadType.KE:
            begin += 4  # the method counts
        elif payload.type not in (PayloadType.NONCE, PayloadType.CERTREQ):
            begin = end
        counts[begin:end] = False
    return counts
