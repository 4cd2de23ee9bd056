"""What the exchanges of handshakes show about their outcome, for the rules of `outcome`."""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from msgspec import Struct

from ikeanalyze import core
from ikeanalyze.analysis.exchanges.answers import AnsweredTransmissions, find_unreceived_responses
from ikeanalyze.analysis.exchanges.exchanges import UNKNOWN, ExchangeColumns
from ikeanalyze.analysis.exchanges.hip_exchange_types import I1_R1, I2_R2, NOTIFY
from ikeanalyze.analysis.exchanges.radius import RadiusExchange
from ikeanalyze.analysis.grouping import find_group_starts
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import BoolArray, Int64Array
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.registries import ikev1 as ikev1_registry
from ikeanalyze.wire.registries.ikev2 import AUTH_EXCHANGES, INIT_EXCHANGES
from ikeanalyze.wire.registries.radius import RadiusCode

# plain numbers: numpy compares them faster than members of an enum
_MAIN_MODE: Final = int(ikev1_registry.Ikev1ExchangeType.MAIN_MODE)
_AGGRESSIVE: Final = int(ikev1_registry.Ikev1ExchangeType.AGGRESSIVE_MODE)
_IKEV1_INFORMATIONAL: Final = int(ikev1_registry.Ikev1ExchangeType.INFORMATIONAL)
_QUICK_MODE: Final = int(ikev1_registry.Ikev1ExchangeType.QUICK_MODE)


class ExchangeEvidence(Struct, frozen=True):
    """The part of `Evidence` that the exchanges show. (handshakes,) each"""

    begun: BoolArray  # except for IKEv1
    hole: BoolArray
    last_unanswered: BoolArray
    last_repeated: BoolArray
    finished: BoolArray
    asked_again: BoolArray


def collect_exchange_evidence(
    state: AnalysisState,
    answers: AnsweredTransmissions,
    pairs: Mapping[int, list[RadiusExchange]],
    undone: BoolArray,
) -> ExchangeEvidence:
    """Collect the evidence that the exchanges show.

    Args:
        state: the exchanges.
        answers: their answers.
        pairs: RADIUS exchanges of each handshake.
        undone: the handshakes whose decrypted payloads show that IKE_AUTH had not ended.
    """
    exchanges, count = state.exchanges, len(undone)
    asked_in_clear = np.zeros(len(exchanges), np.bool_)
    asked_in_clear[state.exchange_of_message[state.in_clear[~state.messages.response[state.in_clear]]]] = True
    if core.compiled is not None and not pairs:
        unreceived = find_unreceived_responses(state, answers, np.ones(len(exchanges), np.bool_))
        return ExchangeEvidence(
            **core.compiled.collect_evidence(exchanges, state.unprotected, unreceived, asked_in_clear, undone)
        )

    def any_of(rows: BoolArray) -> BoolArray:
        return np.bincount(exchanges.handshake[rows], minlength=count) > 0

    ikev1 = exchanges.protocol == Protocol.IKEV1
    exchange_type, attempt, set_up = exchanges.exchange_type, exchanges.attempt, exchanges.set_up
    asked, answered = exchanges.request_messages > 0, (exchanges.response_messages > 0) & ~state.unprotected
    continued = _find_continued(exchanges, answered, asked_in_clear, undone)
    is_last = _find_last_requests(exchanges, continued)
    # the third message of IKEv1's aggressive and quick mode is not answered
    of_three = ikev1 & np.isin(exchange_type, (_AGGRESSIVE, _QUICK_MODE))
    unanswered = set_up & asked & ~answered & ~(of_three & (attempt > 0))
    open_last = unanswered & is_last
    open_last |= find_unreceived_responses(state, answers, is_last & set_up & asked & answered)
    # an initiator that answers a request of the responder has the IKE SA, and the capture lacks the other messages
    accepted = any_of(~exchanges.initiator_asked & ~set_up & answered)
    open_last &= ~accepted[exchanges.handshake]
    # the initiator has yet to send that third message
    pending = of_three & (attempt == 0) & answered & set_up & is_last

    begun = any_of(~ikev1 & np.isin(exchange_type, (*INIT_EXCHANGES, I1_R1)) & asked & set_up)
    begun &= ~any_of(_find_first_exchanges(exchanges) & ~asked)
    auth_v2 = ~ikev1 & np.isin(exchange_type, (*AUTH_EXCHANGES, I2_R2)) & answered & set_up
    done_v1 = ikev1 & (
        ((exchange_type == _MAIN_MODE) & (attempt >= 2) & answered) | ((exchange_type == _AGGRESSIVE) & (attempt >= 1))
    )
    quick = ikev1 & (exchange_type == _QUICK_MODE) & set_up
    half_agreed = any_of(quick) & ~any_of(quick & (attempt > 0))
    finished = (any_of(auth_v2) | (any_of(done_v1) & ~half_agreed)) & ~any_of(pending)
    finished &= ~undone
    finished[list(_find_open_conversations(pairs, np.flatnonzero(is_last & answered)))] = False
    return ExchangeEvidence(
        begun=begun,
        hole=any_of(unanswered & ~is_last)
        | any_of(set_up & ~asked)
        | (continued & ~finished)
        | _find_skipped_ids(exchanges, count)
        | _find_disordered_ids(exchanges, count),
        last_unanswered=any_of(open_last),
        last_repeated=any_of(open_last & (exchanges.request_messages > 1)),
        finished=finished | continued,
        asked_again=any_of(pending & (exchanges.response_messages > 1)),
    )


def _find_skipped_ids(exchanges: ExchangeColumns, count: int) -> BoolArray:
    """Which handshakes lack an exchange in the middle of their set-up, by the message IDs. (handshakes,)

    The initiator numbers its requests one by one (RFC 7296, section 2.2), and all that set up the IKE SA are its own.
    Those of IKEv1 are random (RFC 2408, section 3.1).
    """
    rows = (exchanges.protocol == Protocol.IKEV2) & exchanges.initiator_asked & exchanges.set_up
    numbers = np.sort(exchanges.handshake[rows].astype(np.int64) << 32 | exchanges.message_id[rows])
    handshake = numbers >> 32
    skipped = np.zeros(count, np.bool_)
    skipped[handshake[1:][(handshake[1:] == handshake[:-1]) & (numbers[1:] - numbers[:-1] > 1)]] = True
    return skipped


def _find_disordered_ids(exchanges: ExchangeColumns, count: int) -> BoolArray:
    """Which handshakes have a request of the set-up with a message ID below that of an earlier one. (handshakes,)

    An initiator sends none before the response to the one before (RFC 7296, section 2.3). So the clock was set back, or
    the capture lacks the first transmission.
    """
    rows = np.flatnonzero((exchanges.protocol == Protocol.IKEV2) & exchanges.initiator_asked & exchanges.set_up)
    handshake, numbers, start = exchanges.handshake[rows], exchanges.message_id[rows], exchanges.start_ns[rows]
    disordered = np.zeros(count, np.bool_)
    falls = (handshake[1:] == handshake[:-1]) & (numbers[1:] < numbers[:-1]) & (start[1:] > start[:-1])
    disordered[handshake[1:][falls]] = True
    return disordered


def _find_continued(
    exchanges: ExchangeColumns, answered: BoolArray, asked_in_clear: BoolArray, undone: BoolArray
) -> BoolArray:
    """Which handshakes have later exchanges, as only an IKE SA that was set up has them. (handshakes,)

    An initiator sends no request before the response to the one before, so that its later request shows by its message
    ID that IKE_AUTH was answered. It does not if it follows IKE_SA_INIT, IKE_INTERMEDIATE or an IKE_AUTH that had not
    ended directly, as a DELETE does with which an initiator stops the set-up, or if it follows an IKE_AUTH request that
    was repeated in vain, unless it was answered itself.

    Args:
        exchanges: all exchanges.
        answered: which of them have a response.
        asked_in_clear: which of them have a request in the clear that should be encrypted.
        undone: the handshakes whose decrypted payloads show that IKE_AUTH had not ended.
    """
    count = len(undone)
    by_initiator = (exchanges.protocol == Protocol.IKEV2) & exchanges.initiator_asked
    continued = np.zeros(count, np.bool_)
    continued[exchanges.handshake[~by_initiator & ~exchanges.set_up & answered]] = True
    later = by_initiator & ~exchanges.set_up & (exchanges.request_messages > 0)
    later &= ~asked_in_clear
    rows = np.flatnonzero(later)
    if not len(rows):
        return continued
    set_up = np.flatnonzero(by_initiator & exchanges.set_up)
    message_id, of_set_up = exchanges.message_id.astype(np.int64), exchanges.handshake[set_up]
    last_id = np.full(count, -1, np.int64)
    np.maximum.at(last_id, of_set_up, message_id[set_up])
    has_auth, in_vain = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    has_auth[of_set_up[np.isin(exchanges.exchange_type[set_up], AUTH_EXCHANGES)]] = True
    has_auth &= ~undone
    final = set_up[message_id[set_up] == last_id[of_set_up]]
    in_vain[exchanges.handshake[final]] = ~answered[final] & (exchanges.request_messages[final] > 1)
    handshake = exchanges.handshake[rows]
    step = message_id[rows] - last_id[handshake]
    shows = (step > 1) | ((step == 1) & has_auth[handshake] & (answered[rows] | ~in_vain[handshake]))
    # message ID 0 synchronises those of an IKE SA (RFC 6311, section 4.1)
    shows |= (step <= 0) & answered[rows]
    continued[handshake[shows]] = True
    return continued


def _find_first_exchanges(exchanges: ExchangeColumns) -> BoolArray:
    """The first exchange of each handshake that sets it up. (exchanges,)"""
    rows = np.flatnonzero(exchanges.set_up)
    is_first = np.zeros(len(exchanges), np.bool_)
    is_first[rows[find_group_starts(exchanges.handshake[rows])]] = True
    return is_first


def _find_open_conversations(pairs: Mapping[int, list[RadiusExchange]], last_exchanges: Int64Array) -> Iterator[int]:
    """Yield the handshakes whose AAA server still asked (Access-Challenge) in their last answered exchange."""
    last = set(last_exchanges.tolist())
    for row, exchanged in pairs.items():
        view = exchanged[-1].response_view
        if view is not None and view.code == RadiusCode.ACCESS_CHALLENGE and exchanged[-1].exchange in last:
            yield row


def find_last_times(state: AnalysisState) -> Int64Array:
    """The time of the last message of each set-up; UNKNOWN without set-up. (handshakes,)"""
    messages, exchanges, count = state.messages, state.exchanges, state.association.count
    if core.compiled is not None:
        return core.compiled.find_last_times(exchanges, state.exchange_of_message, messages.last_ns, count)
    rows = np.flatnonzero(exchanges.set_up[state.exchange_of_message])
    last_ns = np.full(count, UNKNOWN)
    if len(rows):  # messages are in order of handshake
        handshake = messages.handshake[rows]
        start = np.flatnonzero(find_group_starts(handshake))
        last_ns[handshake[start]] = np.maximum.reduceat(messages.last_ns[rows], start)
    return last_ns


def _find_last_requests(exchanges: ExchangeColumns, continued: BoolArray) -> BoolArray:
    """The last exchange of each handshake that needs a response: one of the set-up, or the initiator's. (exchanges,)

    `continued`: the handshakes whose later exchanges count.
    """
    exchange_type = exchanges.exchange_type
    # informational messages are never answered
    never = (exchanges.protocol == Protocol.IKEV1) & (exchange_type == _IKEV1_INFORMATIONAL)
    never |= (exchanges.protocol == Protocol.HIP) & (exchange_type == NOTIFY)
    later = exchanges.initiator_asked & continued[exchanges.handshake]
    requests = (later | exchanges.set_up) & (exchanges.request_messages > 0) & ~never
    rows = np.flatnonzero(requests)
    last = np.ones(len(rows), np.bool_)
    last[:-1] = exchanges.handshake[rows[1:]] != exchanges.handshake[rows[:-1]]
    is_last = np.zeros(len(exchanges), np.bool_)
    is_last[rows[last]] = True
    return is_last
