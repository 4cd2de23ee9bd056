"""Summarises the decoded messages of each handshake, for the tables and the outcome.

Handshakes whose messages have payloads of the same kinds and sizes (`decryption.payloads.forms`) have the same
contents: outcome, authentication, key exchanges, certificates. They are summarised once, from the messages of one of
them. Objects of other messages are made only where a check fails or a message is irregular
(`decryption.payloads.columns`).
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field
from msgspec.structs import replace

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage, DecodedMessages, read_message_lengths
from ikeanalyze.analysis.decryption.eap_matching import EapMatch
from ikeanalyze.analysis.decryption.payloads.byte_counts import MessageSize, count_payload_bytes
from ikeanalyze.analysis.decryption.payloads.columns import DecodedColumns, build_decoded_columns
from ikeanalyze.analysis.decryption.payloads.forms import FormColumns, find_forms
from ikeanalyze.analysis.decryption.rekey_exchanges import RekeyedSa, read_rekey_exchanges
from ikeanalyze.analysis.grouping import argsort_stable, expand_ranges, find_distinct_bodies, find_group_starts
from ikeanalyze.analysis.handshakes.contents.authenticated_outcome import (
    DecryptedOutcome,
    collect_certificates,
    outcome_from_payloads,
)
from ikeanalyze.analysis.handshakes.contents.key_exchanges import CARRIERS, KeyExchangeRow, collect_key_exchanges
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import BoolArray, Int64Array, sort_distinct
from ikeanalyze.capture.buffers import MessageBytes
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.ikev2.checks import UNIQUE_TYPES, check_payload_chain
from ikeanalyze.wire.ikev2.payloads import KeyExchange
from ikeanalyze.wire.payload_chain import PayloadChain
from ikeanalyze.wire.registries.ikev2 import ExchangeType, PayloadType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType
from ikeanalyze.wire.x509.certificates import ParsedCertificate

_T = TypeVar("_T")

#: The types that occur at most once in a message, numbered from 1; 0: others.
_UNIQUE_PLACE = np.zeros(256, np.int64)
_UNIQUE_PLACE[sorted(UNIQUE_TYPES)] = np.arange(1, len(UNIQUE_TYPES) + 1)
_UNIQUE_BITS = len(UNIQUE_TYPES).bit_length()
#: Least bytes of the body of a notify payload: protocol, size of the SPI, type.
_NOTIFY_BYTES = 4


class SharedValues(Struct, Generic[_T], frozen=True):
    """A value for each of some handshakes, many of which have the same one."""

    distinct: list[_T]
    handshakes: Int64Array  # their rows, in ascending order. (n,)
    place: Int64Array  # of the value of each in `distinct`. (n,)

    def items(self) -> Iterator[tuple[int, _T]]:
        """Each handshake that has a value, and the value."""
        return zip(self.handshakes.tolist(), map(self.distinct.__getitem__, self.place.tolist()), strict=True)


class HandshakeContents(Struct, frozen=True):
    """Facts from the decoded messages of a handshake."""

    proof: DecryptedOutcome
    certificates: list[tuple[bool, ParsedCertificate]]  # whether the initiator sent it
    key_exchanges: list[KeyExchangeRow]  # their exchanges are counted from the handshake's first decoded one
    successors: list[RekeyedSa]  # IKE SAs that replace this one


class CaptureContents(Struct, frozen=True):
    """The decoded messages of all captures, and the facts of each handshake that has some."""

    contents: DecodedMessages
    columns: DecodedColumns
    forms: FormColumns
    facts: SharedValues[HandshakeContents]
    first_exchange: Int64Array  # row of the first decoded exchange of each handshake of `facts`. (n,)
    payload_bytes: SharedValues[dict[str, int]]  # by part, see `decryption.payloads.byte_counts`
    findings: list[list[tuple[int, str]]] = field(default_factory=list)  # of each capture: frame, text
    same_eap: Sequence[EapMatch] = ()  # set after RADIUS is assigned
    parameters: Mapping[int, list[str]] = field(default_factory=dict)  # of HIP packets, by row of Messages

    def list_refused_methods(self) -> list[int]:
        """Rows of the CREATE_CHILD_SA exchanges whose response asks for another key exchange method, with
        INVALID_KE_PAYLOAD (RFC 7296, section 1.3).
        """
        payloads = self.columns.payloads
        of_child = (self.columns.exchange_type == ExchangeType.CREATE_CHILD_SA) & self.columns.response
        of_child &= self.columns.encrypted
        rows = np.flatnonzero((payloads.type == PayloadType.NOTIFY) & of_child[payloads.message])
        rows = rows[payloads.size[rows] >= _NOTIFY_BYTES]
        # the type comes after the protocol and the size of the SPI
        high, low = (payloads.heap[payloads.begin[rows] + at].astype(np.int64) for at in (2, 3))
        rows = rows[(high << 8 | low) == NotifyType.INVALID_KE_PAYLOAD]
        exchanges: list[int] = sort_distinct(self.columns.exchange[payloads.message[rows]]).tolist()
        return exchanges

    def index_rekeyed_sas(self, capture: Int64Array) -> dict[tuple[int, int, int], tuple[int, RekeyedSa]]:
        """By capture and both SPIs of a new IKE SA: the handshake that it replaces, and the negotiated values.

        `capture` is that of each handshake.
        """
        return {
            (int(capture[handshake]), sa.spi_i, sa.spi_r): (handshake, sa)
            for handshake, facts in self.facts.items()
            for sa in facts.successors
        }


def summarise_contents(
    state: AnalysisState,
    encrypted: MessageBytes,
    contents: DecodedMessages,
    parameters: Mapping[int, list[str]] = MappingProxyType({}),
) -> CaptureContents:
    """Summarise the decoded messages of each handshake; `parameters` are those of HIP packets.

    Findings are sorted by frame.
    """
    columns = build_decoded_columns(state, contents.records, contents.epochs)
    order = _MessageOrder(columns)
    with ThreadPoolExecutor(1) as pool:
        # in parallel: the sizes of messages do not depend on their payloads
        described = pool.submit(_SetupMessages, state, encrypted, contents, order)
        forms = find_forms(columns.payloads, columns.response)
        summary = _Summary(contents, columns, forms, order)
    findings = list(map(list, contents.findings))
    for handshake, of_handshake in summary.findings:
        findings[state.capture[handshake]].extend(of_handshake)
    for of_capture in findings:
        of_capture.sort(key=lambda finding: finding[0])
    payload_bytes = described.result().count_bytes(summary.facts)
    first_exchange = columns.exchange[order.first].astype(np.int64)
    return CaptureContents(
        contents, columns, forms, summary.facts, first_exchange, payload_bytes, findings, parameters=parameters
    )


class _MessageOrder:
    """The decoded messages handshake by handshake, in the order of their exchanges, requests first."""

    def __init__(self, columns: DecodedColumns) -> None:
        self.messages: Int64Array = np.lexsort((columns.response, columns.exchange, columns.handshake))
        handshake = columns.handshake[self.messages]
        starts = np.flatnonzero(find_group_starts(handshake))
        self.first = self.messages[starts]  # the first message of each handshake
        self.handshakes: Int64Array = handshake[starts].astype(np.int64)
        #: Where the messages of each handshake begin, and the number of messages. (handshakes + 1,)
        self.starts = np.append(starts, len(handshake))
        #: The place of each message among the messages of its handshake.
        self.place = np.empty(len(handshake), np.int64)
        self.place[self.messages] = np.arange(len(handshake)) - self.repeat(starts)

    def repeat(self, values: Int64Array) -> Int64Array:
        """A value of each handshake for each of its messages, in this order. (messages,)"""
        return np.repeat(values, np.diff(self.starts))

    def all(self, values: BoolArray) -> BoolArray:
        """Whether the value of each message of a handshake is true; `values` are in this order. (handshakes,)"""
        return np.logical_and.reduceat(values, self.starts[:-1]) if len(values) else values

    def any(self, values: BoolArray) -> BoolArray:
        """Whether the value of a message of a handshake is true; `values` are in this order. (handshakes,)"""
        return np.logical_or.reduceat(values, self.starts[:-1]) if len(values) else values


class _Summary:
    """The facts and the findings of each handshake."""

    def __init__(
        self, contents: DecodedMessages, columns: DecodedColumns, forms: FormColumns, order: _MessageOrder
    ) -> None:
        self._contents = contents
        self._order = order
        messages, payloads = order.messages, columns.payloads
        to_check = _find_messages_to_check(columns, forms)[messages]
        # the SPIs and nonces of a rekeying are those of one handshake
        shared = (payloads.regular & (columns.exchange_type != ExchangeType.CREATE_CHILD_SA))[messages]
        first, form = _number_handshakes(columns, forms, order, order.all(shared))
        distinct: list[HandshakeContents] = []
        place = form.astype(np.int64)
        found: dict[int, list[tuple[int, str]]] = {}  # findings, by position of the handshake
        for position in first.tolist():
            facts, found[position] = self._summarise(position)
            distinct.append(facts)
        # findings about key exchanges name packets of their own handshake
        repeated = np.array([bool(found[position]) for position in first.tolist()], np.bool_)[form]
        repeated[first] = False
        for position in np.flatnonzero(repeated).tolist():
            facts, found[position] = self._summarise(position)
            place[position] = len(distinct)
            distinct.append(facts)
        self.facts = SharedValues(distinct, order.handshakes, place)
        for position in np.flatnonzero(order.any(to_check)).tolist():
            texts = found.setdefault(position, [])
            of_handshake = slice(order.starts[position], order.starts[position + 1])
            for number in messages[of_handshake][to_check[of_handshake]].tolist():
                content = contents.all[number]
                texts.extend((content.frame, text) for text in _check_payloads(content))
        #: Of the handshakes that have some, in their order.
        self.findings = [(int(order.handshakes[position]), found[position]) for position in sorted(found)]

    def _summarise(self, position: int) -> tuple[HandshakeContents, list[tuple[int, str]]]:
        """The facts of the handshake at a position, and the findings about its key exchanges."""
        order = self._order
        numbers = order.messages[order.starts[position] : order.starts[position + 1]].tolist()
        messages = [self._contents.all[number] for number in numbers]
        key_exchanges, findings = collect_key_exchanges(messages)
        first = messages[0].exchange
        facts = HandshakeContents(
            proof=outcome_from_payloads(messages),
            certificates=collect_certificates(messages),
            key_exchanges=[replace(row, exchange=row.exchange - first) for row in key_exchanges],
            successors=list(read_rekey_exchanges(messages)),
        )
        return facts, findings


def _number_handshakes(
    columns: DecodedColumns, forms: FormColumns, order: _MessageOrder, shared: BoolArray
) -> tuple[Int64Array, npt.NDArray[np.uint32]]:
    """Number handshakes so that those with equal numbers have equal facts.

    Returns the position of the first handshake of each number, and the number of each handshake. `shared`: which of
    them may have the number of another one.
    """
    messages, payloads = order.messages, columns.payloads
    payload_counts = np.diff(payloads.starts)[messages]
    facts = (
        payload_counts,
        columns.exchange[messages] - order.repeat(columns.exchange[order.first]),
        columns.exchange_type[messages],
        columns.message_id[messages],
        columns.from_initiator[messages],
        columns.response[messages],
        columns.set_up[messages],
        columns.encrypted[messages],
    )
    # of each message these facts, and after them the kinds of its payloads
    counts = len(facts) + payload_counts
    begin = np.cumsum(counts) - counts
    values = np.empty(int(counts.sum()), np.int64)
    for place, fact in enumerate(facts):
        values[begin + place] = fact
    values[expand_ranges(begin + len(facts), payload_counts)] = forms.kind[
        expand_ranges(payloads.starts[messages], payload_counts)
    ]
    bounds = values.itemsize * np.append(begin, len(values))[order.starts]
    own = np.where(shared, 0, np.arange(1, len(shared) + 1)).astype(np.uint64)
    return find_distinct_bodies(values.view(np.uint8), bounds[:-1], bounds[1:], own)


def _find_messages_to_check(columns: DecodedColumns, forms: FormColumns) -> BoolArray:
    """Which messages may have findings: the irregular ones, and those with a payload that fails a check."""
    payloads = columns.payloads
    result = ~payloads.regular
    failed = np.array([form.has_findings for form in forms.forms], np.bool_)
    result[payloads.message[failed[forms.form]]] = True
    place = _UNIQUE_PLACE[payloads.type]
    unique = np.flatnonzero(place)
    counts = np.bincount(
        payloads.message[unique] << _UNIQUE_BITS | place[unique], minlength=len(result) << _UNIQUE_BITS
    )
    result[np.flatnonzero(counts > 1) >> _UNIQUE_BITS] = True
    return result


def _check_payloads(content: DecodedMessage) -> tuple[str, ...]:
    """The findings about one message, except those about KE payloads, which `key_exchanges` checks in context."""
    if content.protocol != Protocol.IKEV2:
        return () if content.error is None else (f"payloads: {content.error}",)
    checked = check_payload_chain(PayloadChain(content.payloads, content.error), response=content.response)
    elsewhere: tuple[str, ...] = ()
    if content.exchange_type in CARRIERS:
        elsewhere = next((part.findings for part in checked.payloads if isinstance(part.body, KeyExchange)), ())
    return tuple(text for text in checked.findings if text not in elsewhere)


class _SetupMessages:
    """Counts the bytes of the messages of the set-ups."""

    def __init__(
        self, state: AnalysisState, encrypted: MessageBytes, contents: DecodedMessages, order: _MessageOrder
    ) -> None:
        self._state = state
        self._contents = contents
        datagrams, association, messages = state.datagrams, state.association, state.messages
        is_decoded = np.zeros(association.count, np.bool_)
        is_decoded[order.handshakes] = True
        wanted = is_decoded[association.handshake]
        wanted &= state.exchanges.set_up[state.exchange_of_message[state.message_of_datagram]]
        rows = np.flatnonzero(wanted)
        rows = rows[argsort_stable(association.handshake[rows])]
        handshake = association.handshake[rows]
        starts = np.flatnonzero(find_group_starts(handshake))
        self._rows = rows
        _, self._length = read_message_lengths(datagrams.datagram[rows], (state.clear, encrypted))
        ends = np.append(starts, len(rows))[1:]
        #: The range of the datagrams of each handshake in `_rows`. (handshakes,) each
        self._begin, self._end = np.zeros((2, association.count), np.int64)
        self._begin[handshake[starts]], self._end[handshake[starts]] = starts, ends
        message = state.message_of_datagram[rows].astype(np.int64)
        index = contents.of_message[message]
        fragment = datagrams.fragment[rows].astype(np.int64)

        def count_from_first(values: Int64Array) -> Int64Array:
            return values - np.repeat(np.minimum.reduceat(values, starts), ends - starts) if len(values) else values

        #: All that the bytes of a handshake depend on except for the sizes of payloads. (rows, facts)
        self._described = np.column_stack(
            (
                count_from_first(message),
                count_from_first(messages.slot[message]),
                messages.body[message],
                np.where(index < 0, -1, order.place[index]) if len(order.place) else index,
                np.where(state.undelivered[rows], -1 - fragment, fragment),
                self._length,
                messages.new_fragments[message],
                messages.needed_bytes[message],
                messages.bytes[message],
            )
        ).astype(np.int64)

    def count_bytes(self, facts: SharedValues[HandshakeContents]) -> SharedValues[dict[str, int]]:
        """Bytes of the set-up of each handshake that has facts, by part.

        Handshakes with the same facts have payloads of the same sizes.
        """
        begin, end = self._begin[facts.handshakes], self._end[facts.handshakes]
        width = self._described.strides[0]
        heap = self._described.reshape(-1).view(np.uint8)
        first, place = find_distinct_bodies(heap, width * begin, width * end, facts.place.astype(np.uint64))
        bounds = zip(begin[first].tolist(), end[first].tolist(), strict=True)
        distinct = [self._count_bytes(low, high) for low, high in bounds]
        return SharedValues(distinct, facts.handshakes, place.astype(np.int64))

    def _count_bytes(self, low: int, high: int) -> dict[str, int]:
        """Bytes of the set-up of one handshake, by part; `low`, `high`: the range of its datagrams."""
        state, datagrams, messages = self._state, self._state.datagrams, self._state.messages
        sizes: dict[tuple[int, int], MessageSize] = {}
        seen: set[tuple[int, int, int]] = set()
        remaining: dict[int, int] = {}  # datagrams of each message that are first copies
        repeated = 0
        for row, length in zip(self._rows[low:high].tolist(), self._length[low:high].tolist(), strict=True):
            message = int(state.message_of_datagram[row])
            identity = int(messages.slot[message]), int(messages.body[message])
            index = int(self._contents.of_message[message])
            size = sizes.get(identity)
            if size is None:
                size = sizes[identity] = MessageSize(self._contents.all[index] if index >= 0 else None)
            fragment = int(datagrams.fragment[row])
            if message not in remaining:
                needed = int(messages.needed_bytes[message])
                remaining[message] = int(messages.new_fragments[message]) if fragment else int(needed > 0)
                size.frame_bytes += needed
                repeated += int(messages.bytes[message]) - needed
            # like `needed_bytes`: a fragment of a form that is not needed counts as a retransmission
            part = *identity, fragment
            if fragment and state.undelivered[row]:
                continue  # it did not arrive
            if remaining[message] and part not in seen:
                remaining[message] -= 1
                seen.add(part)
                size.ike_bytes += length
                size.headers += 1
        return count_payload_bytes(sizes.values(), repeated)
