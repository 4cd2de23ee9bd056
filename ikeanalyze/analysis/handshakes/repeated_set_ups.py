"""Warn of handshakes with the SPIs of an earlier one, and of IKE_SA_INIT requests that come again too late.

SPIs are random (RFC 7296, section 2.6): two set-ups with the same ones come from a replay, from captures of peers with
a seeded random generator that were merged, or from a test that sends recorded messages. An initiator that has sent its
next request does not repeat IKE_SA_INIT (section 2.1). Within 2 minutes, the same bytes may also be a packet that the
network delayed, and count as a retransmission (`association`); the warning names what may be another set-up.
"""

from enum import IntEnum
from typing import Final

import numpy as np

from ikeanalyze.analysis.grouping import find_distinct, find_group_starts
from ikeanalyze.analysis.messages.capture_facts import CaptureFacts, CaptureWarning, SharedFact
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import Int64Array
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.registries.ikev2 import INIT_EXCHANGES


class _Repetition(IntEnum):
    SPIS = 0
    REQUEST = 1


#: About one packet, and about several.
_TEXTS: Final = {
    _Repetition.SPIS: (
        "a handshake has the SPIs of an earlier one: a replay, merged captures, or peers whose random numbers repeat",
        "{} handshakes have the SPIs of earlier ones, in packets {}: replays, merged captures, or peers whose random "
        "numbers repeat",
    ),
    _Repetition.REQUEST: (
        "an IKE_SA_INIT request came again more than 1 s after the initiator's next request: counted as a "
        "retransmission, although it may be a replay, or another handshake with the same SPIs",
        "{} IKE_SA_INIT requests came again more than 1 s after the initiator's next request, in packets {}: counted "
        "as retransmissions, although they may be replays, or other handshakes with the same SPIs",
    ),
}
#: A network seldom delays a packet for longer.
_LATE_NS: Final = 1_000_000_000
#: Packets that a warning names.
_MOST_NAMED: Final = 5


def warn_of_repeated_set_ups(state: AnalysisState, facts: CaptureFacts) -> list[tuple[int, CaptureWarning]]:
    """Return a warning for each capture and each kind of repetition: the first packet, and a text."""
    again, late = _find_repeated_spis(state), _find_late_requests(state)
    firsts = state.association.find_first_rows()[again] if len(again) else again
    frames = np.concatenate([state.datagrams.number[firsts], state.messages.first_frame[late]]).astype(np.int64)
    kinds = np.repeat([int(_Repetition.SPIS), int(_Repetition.REQUEST)], [len(again), len(late)])
    captures = state.capture[np.concatenate([again, state.messages.handshake[late]])]
    warnings: list[tuple[int, CaptureWarning]] = []
    for number, kind, packets in facts.group_findings(SharedFact.REPEATED_SET_UPS, frames, kinds, captures):
        one, several = _TEXTS[_Repetition(kind)]
        text = several.format(len(packets), _name_packets(packets)) if len(packets) > 1 else one
        warnings.append((number, (int(packets[0]), text)))
    return warnings


def _find_repeated_spis(state: AnalysisState) -> Int64Array:
    """The handshakes with both SPIs of an earlier one of their capture, rising."""
    known = np.flatnonzero(state.summary.spi_r)
    spi_r = state.summary.spi_r[known]
    places = find_distinct(spi_r)[1]
    counts = np.bincount(places)
    if len(counts) == len(known):  # as almost always
        return known[:0]
    chosen = counts[places] > 1
    known, spi_r = known[chosen], spi_r[chosen]
    first = state.association.find_first_rows()[known]
    of_ike = state.datagrams.protocol[first] != Protocol.HIP
    known, spi_r, first = known[of_ike], spi_r[of_ike], first[of_ike]
    spi_i, capture = state.datagrams.spi_i[first], state.capture[known]
    order = np.lexsort((known, spi_i, spi_r, capture))  # the last key is the most significant
    again = ~find_group_starts(capture[order], spi_r[order], spi_i[order])
    return np.sort(known[order[again]])


def _find_late_requests(state: AnalysisState) -> Int64Array:
    """The rows of IKE_SA_INIT requests of IKEv2 that repeat an earlier one too late, rising."""
    messages = state.messages
    rows: Int64Array = np.flatnonzero(messages.transmission > 1)
    exchange_types = messages.exchange_type[rows]
    rows = rows[np.isin(exchange_types, INIT_EXCHANGES) & ~messages.response[rows]]
    rows = rows[messages.protocol[rows] == Protocol.IKEV2]
    if not len(rows):
        return rows
    requests = np.flatnonzero(
        np.isin(messages.handshake, messages.handshake[rows]) & messages.initiator_asked & ~messages.response
    )
    init = np.isin(messages.exchange_type[requests], INIT_EXCHANGES)
    nexts = requests[~init]
    # requests before IKE_SA_INIT do not count: the clock was set back
    nexts = nexts[messages.first_ns[nexts] >= _find_first_times(state, requests[init])[messages.handshake[nexts]]]
    moved_on = _find_first_times(state, nexts)[messages.handshake[rows]]
    late: Int64Array = rows[moved_on < messages.first_ns[rows] - _LATE_NS]
    return late


def _find_first_times(state: AnalysisState, rows: Int64Array) -> Int64Array:
    """The time of the first of these messages in each handshake; the largest number if it has none. (handshakes,)"""
    first = np.full(state.association.count, np.iinfo(np.int64).max)
    np.minimum.at(first, state.messages.handshake[rows], state.messages.first_ns[rows])
    return first


def _name_packets(frames: Int64Array) -> str:
    named = ", ".join(str(frame) for frame in frames[:_MOST_NAMED].tolist())
    return f"{named} and others" if len(frames) > _MOST_NAMED else named
