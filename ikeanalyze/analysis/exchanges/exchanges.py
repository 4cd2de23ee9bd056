"""Group messages into exchanges: each request with its responses, all transmissions together.

An exchange has a message ID of one side of an IKE SA. If a request was repeated with another body (after COOKIE or
INVALID_KE_PAYLOAD), each body is an attempt and an exchange of its own. `answers` finds the response that ended an
exchange and the transmission of the request that it answers.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Container, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from ikeanalyze import core
from ikeanalyze.analysis.exchanges.hip_exchange_types import I1_R1, I2_R2
from ikeanalyze.analysis.grouping import RowColumns, RowGroups, find_group_starts
from ikeanalyze.analysis.messages.messages import MessageColumns
from ikeanalyze.capture.arrays import BoolArray, Int32Array, Int64Array, UInt8Array, UInt32Array, sort_distinct
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.registries.ikev1 import Ikev1ExchangeType
from ikeanalyze.wire.registries.ikev2 import AUTH_EXCHANGES, SET_UP_EXCHANGES, ExchangeType, PayloadType

#: Unknown time, in a column of int64.
UNKNOWN: Final = np.int64(np.iinfo(np.int64).min)
#: Later than all times.
NEVER: Final = np.int64(np.iinfo(np.int64).max)

#: Of IKEv1, besides the first quick mode; a transaction is XAuth or mode config.
_IKEV1_SET_UP: Final = (
    Ikev1ExchangeType.BASE,
    Ikev1ExchangeType.MAIN_MODE,
    Ikev1ExchangeType.AUTHENTICATION_ONLY,
    Ikev1ExchangeType.AGGRESSIVE_MODE,
    Ikev1ExchangeType.TRANSACTION,
)


#: A response to one attempt: its body, and the attempt in which it first came.
_Response = tuple[int, int]


class ExchangeColumns(RowColumns, frozen=True):
    """Columns of one length, ordered by handshake and time."""

    handshake: Int32Array
    protocol: UInt8Array
    exchange_type: UInt8Array
    message_id: npt.NDArray[np.uint32]
    attempt: Int32Array  # from 0
    initiator_asked: BoolArray
    set_up: BoolArray
    start_ns: Int64Array
    request_messages: UInt32Array  # 0: none in the capture
    request_frames: UInt32Array
    request_bytes: Int64Array
    request_ns: Int64Array
    response_messages: UInt32Array
    response_frames: UInt32Array
    response_bytes: Int64Array
    response_ns: Int64Array  # UNKNOWN: none


def pair_exchanges(messages: MessageColumns) -> tuple[ExchangeColumns, Int32Array]:
    """Group messages into exchanges; returns them and the row of the exchange of each message."""
    count = len(messages)
    attempt = _number_attempts(messages)
    if core.compiled is not None:
        columns = core.compiled.pair_exchanges(messages, attempt)
        of_message: Int32Array = columns.pop("of_message")
        if np.array_equal(columns["start_ns"], columns["request_ns"]):
            columns["start_ns"] = columns["request_ns"]  # as usual; without memory of its own
        unmarked = ExchangeColumns(**columns, set_up=np.zeros(len(columns["attempt"]), np.bool_))
        return replace(unmarked, set_up=_sets_up(unmarked)), of_message
    pair = messages.slot >> 1
    # requests before responses, each in order of body and transmission
    order = np.arange(count)
    several = np.flatnonzero(attempt > 0)
    ordered = messages
    if len(several):
        rows = np.flatnonzero(np.isin(pair, pair[several]))
        order[rows] = rows[np.lexsort((rows, messages.response[rows], attempt[rows], pair[rows]))]
        ordered = messages.select(order)
        pair, attempt = pair[order], attempt[order]
    new = find_group_starts(pair, attempt)
    runs = RowGroups(new)
    exchange_of = np.cumsum(new) - 1
    exchanges = _sum_messages(ordered, attempt, runs)
    sequence = _sort_by_time(exchanges)
    if sequence is not None:
        exchanges = exchanges.select(sequence)
        place = np.empty(len(sequence), np.int64)
        place[sequence] = np.arange(len(sequence))
        exchange_of = place[exchange_of]
    exchange_of_message = np.empty(count, np.int32)
    exchange_of_message[order] = exchange_of
    return replace(exchanges, set_up=_sets_up(exchanges)), exchange_of_message


def _sort_by_time(exchanges: ExchangeColumns) -> Int64Array | None:
    """The order by handshake and time of exchanges in order of handshake and mostly of time. (exchanges,)

    None: they are in this order. Selecting them would double their memory.
    """
    handshake, start = exchanges.handshake, exchanges.start_ns
    late = (handshake[1:] == handshake[:-1]) & (start[1:] < start[:-1])
    if not late.any():
        return None
    order = np.arange(len(exchanges))
    rows = np.flatnonzero(np.isin(handshake, handshake[1:][late]))
    order[rows] = rows[np.lexsort((start[rows], handshake[rows]))]
    return order


def _number_attempts(messages: MessageColumns) -> Int32Array:
    """The attempt of each message, from 0, if a request was repeated with another body. (messages,)

    A response belongs to the last request that was first sent before it. A refusal may have the same bytes as the one
    of the attempt before: if that attempt has as many refusals as requests, the next one belongs to the last request.
    In IKEv1 the n-th message of one side answers the n-th of the other.
    """
    attempt = np.zeros(len(messages), np.int32)
    is_ikev1 = messages.protocol == Protocol.IKEV1
    attempt[is_ikev1] = messages.body[is_ikev1]
    pair = messages.slot >> 1
    several = sort_distinct(pair[(messages.body > 0) & ~is_ikev1])
    for low, high in zip(
        np.searchsorted(pair, several).tolist(), np.searchsorted(pair, several, side="right").tolist(), strict=True
    ):
        asked: list[tuple[int, int]] = []  # time and first packet of each request
        sent: list[int] = []  # its transmissions
        answered: dict[_Response, int] = {}
        latest: dict[int, _Response] = {}  # by body
        of_row: dict[int, _Response] = {}
        received: Counter[_Response] = Counter()
        refusals: set[_Response] = set()
        early: set[_Response] = set()  # refusals of a request that is not in the capture
        for row in range(low, high):
            body, when = int(messages.body[row]), (int(messages.first_ns[row]), int(messages.first_frame[row]))
            if not messages.response[row]:
                if body == len(asked):
                    asked.append(when)
                    sent.append(0)
                sent[body] += 1
                attempt[row] = body
                continue
            before = max(bisect_right(asked, when) - 1, 0)  # requests are in order of time
            response = latest.get(body)
            # other responses begin with SA, or with a nonce (IKE_SESSION_RESUME)
            is_refusal = int(messages.next_payload[row]) == PayloadType.NOTIFY
            if response is None or (
                is_refusal and before > answered[response] and received[response] >= sent[answered[response]]
            ):
                response = (body, before)
                latest[body], answered[response] = response, before
                if is_refusal:
                    refusals.add(response)
                    if asked and when < asked[0]:
                        early.add(response)
            received[response] += 1
            of_row[row] = response
            attempt[row] = answered[response]
        if len(set(answered.values())) < len(answered):
            moved = _find_late_refusals(answered, refusals)
            for row, response in of_row.items():
                attempt[row] -= response in moved
            if early:
                first = [of_row.get(row) in early for row in range(low, high)]
                attempt[low:high] += ~np.array(first)
    return attempt


def _find_late_refusals(answered: Mapping[_Response, int], refusals: Container[_Response]) -> set[_Response]:
    """The refusals that came during the attempt after their own; `answered` has the attempt of each response.

    A responder may refuse each transmission of a request with different bytes, because a cookie contains the time. An
    attempt has one response: the one that is not a refusal, or else the last. Other refusals belong to the attempt
    before.
    """
    final: dict[int, _Response] = {}
    for response in sorted(answered, key=lambda response: (response not in refusals, response)):
        final[answered[response]] = response
    return {
        response
        for response, attempt in answered.items()
        if response in refusals and attempt > 0 and final[attempt] != response
    }


def _sum_messages(messages: MessageColumns, attempt: Int32Array, runs: RowGroups) -> ExchangeColumns:
    """The exchanges whose messages are the rows of each run."""
    start = runs.start
    count = len(start)
    response = messages.response

    def first(where: BoolArray) -> Int64Array:
        if not count:
            return np.zeros(0, np.int64)
        when = np.minimum.reduceat(np.where(where, messages.first_ns, NEVER), start)
        return np.where(when == NEVER, UNKNOWN, when)

    columns: dict[str, Any] = {}
    counted: dict[str, npt.NDArray[Any]] = {
        "messages": np.ones(len(messages), np.uint32),
        "frames": messages.frames,
        "bytes": messages.bytes,
    }
    for name, values in counted.items():
        of_responses = runs.sum(np.where(response, values, values.dtype.type(0)))
        columns[f"request_{name}"], columns[f"response_{name}"] = runs.sum(values) - of_responses, of_responses
    columns["request_ns"], columns["response_ns"] = first(~response), first(response)
    for name in ("handshake", "protocol", "exchange_type", "message_id", "initiator_asked"):
        columns[name] = getattr(messages, name)[start]
    return ExchangeColumns(
        attempt=attempt[start],
        set_up=np.zeros(count, np.bool_),
        start_ns=np.where(columns["request_ns"] == UNKNOWN, columns["response_ns"], columns["request_ns"]),
        **columns,
    )


def _precedes_authentication(exchanges: ExchangeColumns, rows: Int64Array) -> BoolArray:
    """Which of these exchanges are between IKE_SA_INIT and IKE_AUTH. (rows,)

    An exchange type for private use, or a new one, sets up the IKE SA there, as IKE_INTERMEDIATE does.
    """
    initiators = (exchanges.protocol == Protocol.IKEV2) & exchanges.initiator_asked
    count = int(exchanges.handshake.max(initial=0)) + 1
    begun, first_auth = np.zeros(count, np.bool_), np.full(count, NEVER)
    begun[exchanges.handshake[initiators & (exchanges.exchange_type == int(ExchangeType.IKE_SA_INIT))]] = True
    auths = initiators & np.isin(exchanges.exchange_type, AUTH_EXCHANGES)
    np.minimum.at(first_auth, exchanges.handshake[auths], exchanges.message_id[auths])
    handshake = exchanges.handshake[rows]
    return np.asarray(initiators[rows] & begun[handshake] & (exchanges.message_id[rows] < first_auth[handshake]))


def _sets_up(exchanges: ExchangeColumns) -> BoolArray:
    """Which exchanges set up the IKE SA; `exchanges` are ordered by handshake and time. (exchanges,)"""
    ikev1 = exchanges.protocol == Protocol.IKEV1
    sets_up = np.isin(exchanges.exchange_type, SET_UP_EXCHANGES)
    hip = exchanges.protocol == Protocol.HIP
    if hip.any():
        sets_up = np.where(hip, np.isin(exchanges.exchange_type, (I1_R1, I2_R2)), sets_up)
    result: BoolArray = ~ikev1 & sets_up & exchanges.initiator_asked
    unknown = np.flatnonzero((exchanges.exchange_type > max(ExchangeType)) & (exchanges.protocol == Protocol.IKEV2))
    if len(unknown):
        result[unknown] = _precedes_authentication(exchanges, unknown)
    result |= ikev1 & np.isin(exchanges.exchange_type, _IKEV1_SET_UP)
    quick = np.flatnonzero(ikev1 & (exchanges.exchange_type == int(Ikev1ExchangeType.QUICK_MODE)))
    if len(quick):
        _, first, handshake = np.unique(exchanges.handshake[quick], return_index=True, return_inverse=True)
        message_id = exchanges.message_id[quick]
        result[quick[message_id == message_id[first][handshake]]] = True
    return result
