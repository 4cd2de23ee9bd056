"""Selects the handshakes that a rule of the diagnosis may concern.

Most handshakes have no problem. Comparing columns finds the others.
"""

from typing import Final

import numpy as np
from msgspec import Struct

from ikeanalyze.analysis.exchanges.answers import AnsweredTransmissions
from ikeanalyze.analysis.exchanges.capture_point import FROM_MANIFEST, GIVEN
from ikeanalyze.analysis.exchanges.exchanges import ExchangeColumns
from ikeanalyze.analysis.grouping import find_group_starts
from ikeanalyze.analysis.handshakes.handshakes import HandshakeColumns
from ikeanalyze.analysis.handshakes.outcome import Outcome
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import BoolArray, Int32Array, Int64Array, UInt32Array
from ikeanalyze.capture.buffers import Columns
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.header import FLAG_RESPONSE
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2 import ExchangeType, PayloadType
from ikeanalyze.wire.registries.ikev2_notifies import LIBRESWAN_USE_PPK_INT, NotifyType

#: Longer than any initiator waits before it repeats a request.
LONGEST_RTT_NS: Final = 60_000_000_000
#: Time stamps of several interfaces are out of order by less.
STEP_BACK_NS: Final = 1_000_000_000
#: Fewer transmissions of a message are normal, except where the round-trip time of the path is known.
_MANY_TRANSMISSIONS: Final = 4
#: From this number on, transmissions of a request after its response are not normal.
MANY_IGNORED: Final = 3
#: Largest encrypted IKE_AUTH response, in bytes, that refuses the IKE SA or its CHILD_SA: headers, IV, identity, AUTH
#: payload, notify, padding and ICV. A response of the other types that refuses has less.
_SHORT_BYTES: Final = 176
#: An initiator offers a PPK for IKE_INTERMEDIATE (RFC 9867) with one of them, and a responder accepts it with one.
INTERMEDIATE_PPK_NOTIFIES: Final = frozenset(
    (NotifyType.USE_PPK_INT.label, get_name(NotifyType, LIBRESWAN_USE_PPK_INT))
)
#: The same of a PPK for IKE_AUTH (RFC 8784) or IKE_INTERMEDIATE.
PPK_NOTIFIES: Final = INTERMEDIATE_PPK_NOTIFIES | {NotifyType.USE_PPK.label}
#: Exchanges whose encrypted responses can refuse an SA.
_WITH_REFUSALS: Final = (ExchangeType.IKE_AUTH, ExchangeType.CREATE_CHILD_SA, ExchangeType.IKE_FOLLOWUP_KE)


class ShortResponses(Struct, frozen=True):
    """Encrypted responses that may have no room for what a successful one has: see `_WITH_REFUSALS`."""

    datagram: UInt32Array  # as in the frames
    ike_bytes: Int64Array


def find_short_responses(columns: Columns) -> ShortResponses:
    """Find the short encrypted responses among the frames."""
    rows = np.flatnonzero(
        np.isin(columns["exchange_type"], np.array(_WITH_REFUSALS, np.uint8))
        & (columns["next_payload"] == int(PayloadType.SK))
        & (columns["ike_bytes"] <= _SHORT_BYTES)
    )
    rows = rows[columns["flags"][rows] & FLAG_RESPONSE > 0]
    return ShortResponses(columns["datagram"][rows], columns["ike_bytes"][rows].astype(np.int64))


#: Number of half-open handshakes, and of unanswered ones, that are diagnosed: a flood has millions, whose sentences
#: would take more memory than all else.
MAX_DIAGNOSED: Final = 10_000


def find_suspects(
    handshakes: HandshakeColumns, state: AnalysisState, answers: AnsweredTransmissions, short: ShortResponses
) -> BoolArray:
    """Which handshakes a rule may concern. (handshakes,)"""
    messages, exchanges = state.messages, state.exchanges
    # in the order of `Outcome`, those of handshakes that the packets show to have stopped
    suspects = (handshakes.outcome >= int(Outcome.FAILED)) & (handshakes.outcome <= int(Outcome.HALF_OPEN))
    suspects |= (handshakes.outcome == int(Outcome.CUT)) & _find_repeated_rounds(handshakes, exchanges)
    suspects |= handshakes.uncertain
    if handshakes.contents is not None:
        facts = handshakes.contents.facts
        refused = np.array([value.proof.child_error is not None for value in facts.distinct], np.bool_)
        suspects[facts.handshakes[refused[facts.place]]] = True
    unfragmented = (messages.ip_fragments > 0) & (messages.exchange_type == int(ExchangeType.IKE_INTERMEDIATE))
    suspects[messages.handshake[(messages.transmission >= _MANY_TRANSMISSIONS) | unfragmented]] = True
    known_path = (handshakes.rtt_source == GIVEN) | (handshakes.rtt_source == FROM_MANIFEST)
    if known_path.any():
        repeated = np.zeros(len(suspects), np.bool_)
        repeated[messages.handshake[messages.transmission > 1]] = True
        suspects |= repeated & known_path
    unanswered = ~exchanges.set_up & ((exchanges.response_messages == 0) | state.unprotected)
    suspects[exchanges.handshake[unanswered | (answers.rtt_ns > LONGEST_RTT_NS)]] = True
    with_short = np.zeros(len(suspects), np.bool_)
    with_short[state.association.handshake[np.isin(state.datagrams.datagram, short.datagram)]] = True
    suspects |= with_short
    suspects |= _find_declined_additional_key_exchanges(handshakes)
    suspects |= _find_offered_ppks(handshakes)
    suspects |= _find_early_authentication(handshakes, exchanges)
    suspects |= find_steps_back(state) > STEP_BACK_NS
    # the rules are about IKE
    suspects &= ~handshakes.rekeyed & (handshakes.protocol <= int(Protocol.IKEV1))
    # an IKE SA that replaced another one has no set-up, but may refuse requests; without keys nothing is known about it
    replacing = list(handshakes.replaces)
    suspects[replacing] = with_short[replacing]
    for outcome in (Outcome.HALF_OPEN, Outcome.UNANSWERED):
        suspects[np.flatnonzero(suspects & (handshakes.outcome == int(outcome)))[MAX_DIAGNOSED:]] = False
    return suspects


def _find_repeated_rounds(handshakes: HandshakeColumns, exchanges: ExchangeColumns) -> BoolArray:
    """Which handshakes had a further IKE_SA_INIT request, or one that was repeated as if unanswered. (handshakes,)

    Of the handshakes that are cut, a rule can only concern these: nothing else tells why they stop in the capture.
    """
    result = np.zeros(len(handshakes), np.bool_)
    result[list(handshakes.extra_round_trips)] = True
    result[exchanges.handshake[exchanges.request_messages >= MANY_IGNORED]] = True
    return result


def _find_declined_additional_key_exchanges(handshakes: HandshakeColumns) -> BoolArray:
    """Whether the initiator offered additional key exchanges, and the responder chose none. (handshakes,)"""
    offered = np.array([*(any("ADDKE" in text for text in form.proposals) for form in handshakes.facts), False])
    without = np.array(
        [*(form.chosen is not None and not form.chosen.additional for form in handshakes.facts), False], np.bool_
    )
    return np.asarray(offered[handshakes.request_facts] & without[handshakes.response_facts])


def _find_offered_ppks(handshakes: HandshakeColumns) -> BoolArray:
    """Whether the initiator offered a post-quantum pre-shared key, which few do. (handshakes,)"""
    offered = np.array([*(not PPK_NOTIFIES.isdisjoint(form.supports) for form in handshakes.facts), False])
    return np.asarray(offered[handshakes.request_facts])


def _find_early_authentication(handshakes: HandshakeColumns, exchanges: ExchangeColumns) -> BoolArray:
    """Whether IKE_AUTH began before all chosen additional key exchanges had been made. (handshakes,)

    These have the message IDs from 1 on (RFC 9370, 2.2.2).
    """
    chosen = np.array(
        [*(0 if form.chosen is None else len(form.chosen.additional) for form in handshakes.facts), 0], np.uint32
    )
    result = np.zeros(len(handshakes), np.bool_)
    if chosen.any():
        early = np.flatnonzero((exchanges.message_id <= chosen.max()) & exchanges.set_up)
        early = early[exchanges.exchange_type[early] == int(ExchangeType.IKE_AUTH)]
        handshake = exchanges.handshake[early]
        result[handshake[exchanges.message_id[early] <= chosen[handshakes.response_facts[handshake]]]] = True
    return result


def find_steps_back(state: AnalysisState) -> Int64Array:
    """By how much the time stamps of each handshake go back in the order of the packets; 0: not. (handshakes,)"""
    datagrams, handshake = state.datagrams, state.association.handshake
    result = np.zeros(len(state.capture), np.int64)
    # the rows are in order of capture and time
    falling = np.flatnonzero(datagrams.number[1:] < datagrams.number[:-1])
    if (state.capture[handshake[falling + 1]] != state.capture[handshake[falling]]).all():
        return result
    order = np.lexsort((datagrams.number, state.capture[handshake]))
    if not measure_steps_back(datagrams.first_ns[order], state.capture[handshake[order]]).max(initial=0) > STEP_BACK_NS:
        return result
    order = np.lexsort((datagrams.number, handshake))
    np.maximum.at(result, handshake[order], measure_steps_back(datagrams.first_ns[order], handshake[order]))
    return result


def measure_steps_back(times: Int64Array, group: Int32Array | Int64Array) -> Int64Array:
    """How much earlier each time is than the latest one before it in its group; groups follow one another. (n,)"""
    number = np.cumsum(find_group_starts(group)) - 1
    if not len(times) or number[-1] == 0:
        return np.maximum.accumulate(times) - times
    # the latest time is the one of the highest rank; ranks of a later group are above those of the groups before it
    order = np.argsort(times, kind="stable")
    rank = np.empty(len(times), np.int64)
    rank[order] = np.arange(len(times))
    first = number * len(times)
    latest: Int64Array = times[order[np.maximum.accumulate(first + rank) - first]]
    return latest - times
