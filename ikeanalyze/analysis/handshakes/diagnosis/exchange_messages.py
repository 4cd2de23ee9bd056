"""The requests and responses of the suspects' exchanges: what all transmissions of each add up to."""

from typing import Any, Final, Self

import numpy as np
from msgspec import Struct

from ikeanalyze.analysis.grouping import RowGroups, argsort_stable, expand_ranges, find_group_starts
from ikeanalyze.analysis.handshakes.diagnosis.candidates import ShortResponses
from ikeanalyze.analysis.handshakes.diagnosis.responders import NAT_PORT
from ikeanalyze.analysis.messages.datagrams import Datagrams
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.analysis.tables.columns import Array, FlatListColumn, TextColumn
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt32Array, sort_distinct
from ikeanalyze.wire.registries.ikev1 import Ikev1PayloadType
from ikeanalyze.wire.registries.ikev2 import PayloadType

#: Packet numbers that are kept as evidence of one message.
MAX_FRAMES: Final = 12


def get_message_keys(state: AnalysisState, transmissions: Array) -> Int64Array:
    """The request or response that each transmission (row of the messages) is of: row of the exchange * 2, + 1 if it is
    a response.
    """
    keys: Int64Array = state.exchange_of_message[transmissions].astype(np.int64) * 2
    keys += state.messages.response[transmissions]
    return keys


class ExchangeMessages(Struct, frozen=True):
    """A row for the request and for the response of each exchange, as far as the capture has them, in order."""

    key: Int64Array  # see `get_message_keys`. (n,)
    bytes: Int64Array  # of the largest datagram. (n,)
    ike_bytes: Int64Array  # length of the longest short response; -1: none is short. (n,)
    fragments: Int64Array  # IKE fragments of the message; 0: not fragmented. (n,)
    ip_fragmented: BoolArray  # (n,)
    on_4500: BoolArray  # a transmission uses UDP port 4500. (n,)
    transmissions: Int64Array  # (n,)
    countable: BoolArray  # `transmissions` are those of the message, and not IKE fragments without a number. (n,)
    first_ns: Int64Array  # of its first datagram. (n,)
    last_ns: Int64Array  # (n,)
    frames: FlatListColumn  # numbers of the first packets of the transmissions. (n,)
    runs: RowGroups  # the datagrams of each, in their order
    datagrams: Int64Array  # rows of the datagrams. (datagrams,)
    transmission_of: Int64Array  # row of the messages for each of these datagrams. (datagrams,)

    @classmethod
    def collect(cls, suspects: BoolArray, state: AnalysisState, short: ShortResponses) -> Self:
        """The messages of suspects, at least one of which has a datagram; `suspects`: (handshakes,)."""
        rows: Int64Array = np.flatnonzero(suspects[state.association.handshake])
        key = get_message_keys(state, state.message_of_datagram[rows])
        order = argsort_stable(key)
        rows, key = rows[order], key[order]
        new = find_group_starts(key)
        runs, key, columns = RowGroups(new), key[new], state.datagrams
        transmission_of = state.message_of_datagram[rows].astype(np.int64)
        # the receiver keeps the fragments with the largest total that arrived (RFC 7383, 2.6); 0: unknown, of IKEv1
        fragments = columns.fragments[rows].astype(np.int64)
        arrived = runs.max(np.where(state.undelivered[rows], -1, fragments))
        on_4500 = (columns.source_port[rows] == NAT_PORT) | (columns.destination_port[rows] == NAT_PORT)
        of_transmission = np.searchsorted(key, get_message_keys(state, sort_distinct(transmission_of)))
        return cls(
            key=key,
            bytes=runs.max(columns.bytes[rows].astype(np.int64)),
            ike_bytes=runs.max(_get_short_lengths(columns.datagram[rows], short)),
            fragments=np.where(arrived < 0, runs.max(fragments), arrived),
            ip_fragmented=runs.max(columns.ip_fragments[rows]) > 0,
            on_4500=runs.max(on_4500.astype(np.int64)) > 0,
            transmissions=np.bincount(of_transmission, minlength=len(key)),
            countable=runs.max(_lack_fragment_numbers(columns, rows).astype(np.int64)) == 0,
            first_ns=runs.min(columns.first_ns[rows]),
            last_ns=runs.max(columns.first_ns[rows]),
            frames=list_first_frames(state, rows, runs),
            runs=runs,
            datagrams=rows,
            transmission_of=transmission_of,
        )

    def find(self, exchanges: Int64Array, *, response: bool) -> Int64Array:
        """The rows of the requests or the responses of exchanges (-1: no exchange); -1: the capture has none."""
        wanted = exchanges * 2 + response
        place = np.minimum(np.searchsorted(self.key, wanted), len(self.key) - 1)
        return np.where(self.key[place] == wanted, place, -1)

    def describe_transmissions(self, requests: Int64Array) -> TextColumn:
        """How often requests (rows; -1: none) were sent, and in which time: "once", "4 times in 12.1 s".

        Those that are not countable were sent "at least once".
        """
        countable = take(self.countable, requests, True)
        count = np.where(countable, take(self.transmissions, requests, 1), 1)
        seconds = np.round((self.last_ns[requests] - self.first_ns[requests]) / 1e9, 1)
        texts, place = ["once"], np.zeros(len(requests), np.uint32)
        known: dict[tuple[int, float], int] = {}
        repeated = np.flatnonzero(count > 1)
        for number, *sent in zip(
            *(values.tolist() for values in (repeated, count[repeated], seconds[repeated])), strict=True
        ):
            place[number] = known.setdefault((sent[0], sent[1]), len(known) + 1)
        texts += [f"{times} times in {span} s" for times, span in known]
        place[~countable] = len(texts)
        return TextColumn([*texts, "at least once"], place)

    def count_retransmissions(self, requests: Int64Array) -> tuple[Int64Array, BoolArray]:
        """How often requests (rows; -1: none) were sent again; null: they are not countable."""
        return take(self.transmissions, requests, 1) - 1, take(self.countable, requests, True)

    def describe_missing_fragments(self, state: AnalysisState, messages: Int64Array) -> TextColumn:
        """The IKE fragments that are in no transmission of messages (rows; -1: none): "fragment 2 of 2"; None: none."""
        lacking = get_message_keys(state, state.lacking_fragments)
        texts: list[str | None] = [None]
        place = np.zeros(len(messages), np.uint32)
        for number in np.flatnonzero((messages >= 0) & np.isin(self.key[messages], lacking)).tolist():
            missing, total = self._find_missing_fragments(state, int(messages[number]))
            if missing:
                word = "fragments" if len(missing) > 1 else "fragment"
                place[number] = len(texts)
                texts.append(f"{word} {', '.join(map(str, missing))} of {total}")
        return TextColumn(texts, place)

    def _find_missing_fragments(self, state: AnalysisState, message: int) -> tuple[list[int], int]:
        """The numbers of the fragments that a message lacks, and how many it has in all."""
        rows = self.datagrams[self.runs.start[message] : self.runs.end[message]]
        total, fragments = int(self.fragments[message]), state.datagrams.fragments[rows]
        is_kept = (fragments == total) & ~state.undelivered[rows] | (fragments == 0)
        kept = state.datagrams.fragment[rows[is_kept]]
        is_missing = np.ones(total + 1, np.bool_)
        is_missing[0] = False
        is_missing[kept[kept <= total]] = False
        return np.flatnonzero(is_missing).tolist(), total

    def find_late_transmissions(self, state: AnalysisState, requests: Int64Array, responses: Int64Array) -> Int64Array:
        """The transmissions (rows of the messages) of requests after the beginning of the first response to them.

        `requests` and `responses` are rows of the same exchanges; -1: none.
        """
        both = np.flatnonzero((requests >= 0) & (responses >= 0))
        size = self.runs.size[requests[both]]
        place = expand_ranges(self.runs.start[requests[both]], size)
        times = state.datagrams.first_ns[self.datagrams[place]]
        late = place[times > np.repeat(self.first_ns[responses[both]], size)]
        return sort_distinct(self.transmission_of[late])


def _lack_fragment_numbers(columns: Datagrams, rows: Int64Array) -> BoolArray:
    """Which datagrams are IKE fragments that the snapshot length truncates before their numbers. (rows,)

    Each of them looks like a message, so that those of one message look like its retransmissions.
    """
    fragment_type = np.where(columns.is_ikev1[rows], int(Ikev1PayloadType.FRAGMENT), int(PayloadType.SKF))
    return np.asarray((columns.next_payload[rows] == fragment_type) & (columns.fragment[rows] == 0))


def _get_short_lengths(datagrams: UInt32Array, short: ShortResponses) -> Int64Array:
    """The length of the IKE message of each datagram, by its number, that is a short response; else -1."""
    lengths = np.full(len(datagrams), -1, np.int64)
    if len(short.datagram):
        order = np.argsort(short.datagram, kind="stable")
        place = order[np.minimum(np.searchsorted(short.datagram[order], datagrams), len(order) - 1)]
        is_short = short.datagram[place] == datagrams
        lengths[is_short] = short.ike_bytes[place[is_short]]
    return lengths


def list_first_frames(state: AnalysisState, datagrams: Int64Array, runs: RowGroups) -> FlatListColumn:
    """The number of the first packet of each transmission, at most `MAX_FRAMES` of each message.

    Args:
        state: the datagrams.
        datagrams: rows, those of one message together.
        runs: the messages; at least one.
    """
    fragment = state.datagrams.fragment[datagrams].astype(np.int64)
    first = fragment == np.repeat(runs.min(fragment), runs.size)
    message = np.repeat(np.arange(len(runs.start)), runs.size)[first]
    ordered = np.sort(message << 32 | state.datagrams.number[datagrams[first]])
    count = np.bincount(message, minlength=len(runs.start))
    kept = np.minimum(count, MAX_FRAMES)
    return FlatListColumn(ordered[expand_ranges(np.cumsum(count) - count, kept)].astype(np.uint32), kept)


def take(values: Array, places: Int64Array, missing: int | bool) -> Any:
    """The values at these places; `missing` where the place is -1."""
    return np.where(places < 0, missing, values[places])
