"""Find the exchanges that got only unencrypted responses.

After IKE_SA_INIT all messages are encrypted. A host that does not know the IKE SA of a request may respond with
notifies in the clear (RFC 7296, section 1.5), usually INVALID_IKE_SPI, which may have QCD_TOKEN with it (RFC 6290,
section 4.3). The other side must not rely on it (RFC 7296, section 2.4), because anyone can send it: it repeats its
request as if there were no response. The same holds for any other response without an encrypted payload.

If the request is in the clear too, somebody has decrypted the messages before they were written into the capture. The
analysis does not use their contents, which nothing authenticates: a warning names such captures.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from ikeanalyze.analysis.exchanges.exchanges import ExchangeColumns
from ikeanalyze.analysis.messages.association import SaAssociation, is_init, refuses_version
from ikeanalyze.analysis.messages.capture_facts import CaptureFacts, SharedFact
from ikeanalyze.analysis.messages.datagrams import Datagrams
from ikeanalyze.analysis.messages.messages import MessageColumns
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import (
    BoolArray,
    Int32Array,
    Int64Array,
    UInt8Array,
    UInt32Array,
    read_struct_array,
    read_uint16_be,
    sort_distinct,
)
from ikeanalyze.capture.buffers import Columns, MessageBytes
from ikeanalyze.capture.decode.classify import MAX_CLEAR_PAYLOADS, Protocol
from ikeanalyze.wire.header import FLAG_ENCRYPTED
from ikeanalyze.wire.registries.ikev1 import Ikev1ExchangeType, Ikev1PayloadType
from ikeanalyze.wire.registries.ikev2 import ExchangeType, PayloadType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType

_ENCRYPTED: Final = (
    ExchangeType.IKE_AUTH,
    ExchangeType.CREATE_CHILD_SA,
    ExchangeType.INFORMATIONAL,
    ExchangeType.GSA_AUTH,
    ExchangeType.IKE_INTERMEDIATE,
    ExchangeType.IKE_FOLLOWUP_KE,
)
#: A message that begins with a notify may have an SK payload after it, if it has this length: IKE header, notify, SK
#: header, and of the shortest ciphers and integrity algorithms 8 bytes of IV, one of padding and 8 of ICV.
_SHORTEST_ENCRYPTED: Final = 28 + 8 + 4 + 8 + 1 + 8
_HEADER: Final = 28
#: The generic header of a payload (RFC 7296, 3.2).
_PAYLOAD: Final = np.dtype([("next", "u1"), ("flags", "u1"), ("length", ">u2")])
_NOTIFY: Final = int(PayloadType.NOTIFY)
_SK: Final = int(PayloadType.SK)
_SKF: Final = int(PayloadType.SKF)
#: Offset of the notify type: after the IKE header, the generic header, protocol ID and SPI size (RFC 7296, 3.10).
_NOTIFY_TYPE: Final = _HEADER + 4 + 2


def find_clear_messages(columns: Columns, clear: MessageBytes) -> UInt32Array:
    """The datagrams, as in the frames, of IKEv2 messages of encrypted exchanges that have no encrypted payload.

    `clear` has the bytes of messages that begin with another payload. If the capture lacks some of them, a short
    message that begins with a notify has none.
    """
    next_payload = columns["next_payload"]
    rows = np.flatnonzero(_is_clear(next_payload))
    rows = rows[np.isin(columns["exchange_type"][rows], _ENCRYPTED)]
    rows = rows[columns["protocol"][rows] == int(Protocol.IKEV2)]
    if not len(rows):
        return np.zeros(0, np.uint32)
    datagrams, size = columns["datagram"][rows], columns["ike_bytes"][rows].astype(np.int64)
    has_none = (next_payload[rows] == _NOTIFY) & (size < _SHORTEST_ENCRYPTED)
    begin, captured = clear.places(datagrams)
    whole = np.flatnonzero(captured >= size)
    has_none[whole] |= _lack_encrypted_payloads(
        clear, begin[whole] + _HEADER, begin[whole] + size[whole], next_payload[rows[whole]].astype(np.uint8)
    )
    return np.asarray(datagrams[has_none])


def _is_clear(payload_type: npt.NDArray[np.integer]) -> BoolArray:
    """Which payload types are others than those of encrypted payloads. (n,)"""
    clear: BoolArray = (payload_type != _SK) & (payload_type != _SKF)
    return clear


def _lack_encrypted_payloads(clear: MessageBytes, at: Int64Array, end: Int64Array, kind: UInt8Array) -> BoolArray:
    """Whether the chain of payloads from `at`, of which the first is of type `kind`, has no encrypted one. (n,)"""
    result = np.zeros(len(at), np.bool_)
    rows, at, kind = np.arange(len(at)), at.copy(), kind.copy()
    for _ in range(MAX_CLEAR_PAYLOADS + 1):
        result[rows[kind[rows] == 0]] = True
        rows = rows[(kind[rows] != 0) & _is_clear(kind[rows]) & (at[rows] + 4 <= end[rows])]
        if not len(rows):
            break
        payload = read_struct_array(clear.heap, at[rows], _PAYLOAD)
        kind[rows] = payload["next"]
        at[rows] += np.maximum(payload["length"], 4)
        rows = rows[at[rows] <= end[rows]]
    return result


def select_ignored_messages(
    exchanges: ExchangeColumns, messages: MessageColumns, exchange_of_message: Int32Array, in_clear: Int64Array
) -> Int64Array:
    """Of the rows `in_clear` of messages without encrypted payload, those that belong to no IKE SA.

    They are responses to encrypted requests, and notifies without a request, or that are requests.
    """
    if not len(in_clear):
        return in_clear
    is_clear = np.zeros(len(messages), np.bool_)
    is_clear[in_clear] = True
    is_encrypted = np.zeros(len(exchanges), np.bool_)
    is_encrypted[exchange_of_message[~messages.response & ~is_clear]] = True
    exchange = exchange_of_message[in_clear]
    is_notify = messages.next_payload[in_clear] == _NOTIFY
    is_alone = exchanges.request_messages[exchange] == 0
    responds = is_encrypted[exchange] | (is_alone & is_notify)
    return np.asarray(in_clear[np.where(messages.response[in_clear], responds, is_notify)])


def find_decrypted_requests(messages: MessageColumns, in_clear: Int64Array, ignored: Int64Array) -> Int64Array:
    """The rows of IKE_AUTH requests that were decrypted before they were captured, of the rows `in_clear`, rising.

    `ignored`: of `select_ignored_messages`. Notifies in the clear, which anyone can send, are among these.
    """
    requests = in_clear[~messages.response[in_clear]]
    requests = requests[messages.exchange_type[requests] == int(ExchangeType.IKE_AUTH)]
    return np.asarray(requests[~np.isin(requests, ignored)])


def find_decrypted_ikev1_messages(datagrams: Datagrams, message_of_datagram: Int32Array) -> Int64Array:
    """The rows of messages of IKEv1 that were decrypted before they were captured, rising.

    All payloads of Quick Mode are encrypted, of which HASH is the first one, and so are the last two messages of Main
    Mode, which alone begin with ID (RFC 2409, sections 5.1, 5.4 and 5.5). Fragments have a payload type of their own.
    """
    is_ikev1 = datagrams.is_ikev1
    if not is_ikev1.any():
        return np.zeros(0, np.int64)
    kind, first = datagrams.exchange_type, datagrams.next_payload
    quick = (kind == int(Ikev1ExchangeType.QUICK_MODE)) & (first == int(Ikev1PayloadType.HASH))
    identities = (kind == int(Ikev1ExchangeType.MAIN_MODE)) & (first == int(Ikev1PayloadType.ID))
    clear = is_ikev1 & (quick | identities) & (datagrams.flags & FLAG_ENCRYPTED == 0)
    return sort_distinct(message_of_datagram[clear]).astype(np.int64)


def warn_of_decrypted_captures(state: AnalysisState, facts: CaptureFacts) -> list[tuple[int, tuple[int | None, str]]]:
    """Return warnings for each capture with messages that were decrypted: number of the first packet, and text."""
    ikev1 = find_decrypted_ikev1_messages(state.datagrams, state.message_of_datagram)
    rows = np.concatenate([state.decrypted_requests, ikev1])
    frames = state.messages.first_frame[rows].astype(np.int64)
    captures = state.capture[state.messages.handshake[rows]]
    warnings: list[tuple[int, tuple[int | None, str]]] = []
    kinds = np.repeat(np.arange(2, dtype=np.uint8), [len(state.decrypted_requests), len(ikev1)])
    for number, is_ikev1, packets in facts.group_findings(SharedFact.DECRYPTED_REQUESTS, frames, kinds, captures):
        if is_ikev1:
            number_of = f"{len(packets):,} messages" if len(packets) > 1 else "a message"
            subject = f"{number_of} of IKEv1 that must be encrypted {'are' if len(packets) > 1 else 'is'}"
            effect = "times and sizes are those of the copy"
        else:
            subject = f"{len(packets):,} IKE_AUTH requests are" if len(packets) > 1 else "an IKE_AUTH request is"
            effect = (
                "outcome and authentication are not read from the contents, and times and sizes are those of the copy"
            )
        text = f"{subject} not encrypted, as in a decrypted copy of a capture: {effect}. Read the original with --keys"
        warnings.append((number, (int(packets[0]), text)))
    return warnings


def find_invalid_spi_notifies(datagrams: Datagrams, in_clear: BoolArray, clear: MessageBytes) -> BoolArray:
    """Which datagrams are INVALID_SPI outside of an IKE SA: about an ESP or AH packet (RFC 7296, 1.5). (datagrams,)

    It is a request in the clear with any SPIs, and nothing answers it. `in_clear`: of `find_clear_messages`.
    """
    return _find_notifies(datagrams, in_clear & ~datagrams.is_response, clear, NotifyType.INVALID_SPI)


def find_version_refusals(datagrams: Datagrams, in_clear: BoolArray, clear: MessageBytes) -> BoolArray:
    """Which datagrams refuse the IKE version of a request with INVALID_MAJOR_VERSION (RFC 7296, 2.5). (datagrams,)

    In IKEv2 it is a response in the clear, in IKEv1 an informational message. `in_clear`: of `find_clear_messages`.
    """
    found = _find_notifies(datagrams, in_clear & datagrams.is_response, clear, NotifyType.INVALID_MAJOR_VERSION)
    ikev1 = datagrams.is_ikev1 & (datagrams.exchange_type == int(Ikev1ExchangeType.INFORMATIONAL))
    for row in np.flatnonzero(ikev1 & (datagrams.spi_r == 0)).tolist():
        found[row] = refuses_version(clear.get(int(datagrams.datagram[row]), b""), Protocol.IKEV1)
    return found


def find_refused_handshakes(refusals: BoolArray, datagrams: Datagrams, association: SaAssociation) -> Int64Array:
    """The handshakes that consist of refusals of their version and of unanswered first requests, rising."""
    if not refusals.any():
        return np.zeros(0, np.int64)
    requests = is_init(datagrams) & (datagrams.is_ikev1 | ~datagrams.is_response) & (datagrams.spi_r == 0)
    return find_handshakes_made_of(refusals, association, refusals | requests)


def find_handshakes_made_of(
    rows: BoolArray, association: SaAssociation, allowed: BoolArray | None = None
) -> Int64Array:
    """The handshakes that consist of these datagrams alone, rising; `allowed`: these, and others that may be there."""
    if not rows.any():
        return np.zeros(0, np.int64)
    others = np.bincount(association.handshake[~(rows if allowed is None else allowed)], minlength=association.count)
    handshakes = sort_distinct(association.handshake[rows]).astype(np.int64)
    alone: Int64Array = handshakes[others[handshakes] == 0]
    return alone


def _find_notifies(datagrams: Datagrams, among: BoolArray, clear: MessageBytes, notify_type: int) -> BoolArray:
    """Which of the datagrams `among` are INFORMATIONAL messages that begin with this notify. (datagrams,)"""
    found: BoolArray = among & (datagrams.exchange_type == int(ExchangeType.INFORMATIONAL))
    found &= datagrams.next_payload == _NOTIFY
    rows = np.flatnonzero(found)
    begin, size = clear.places(datagrams.datagram[rows])
    found[rows[size < _NOTIFY_TYPE + 2]] = False
    rows, begin = rows[size >= _NOTIFY_TYPE + 2], begin[size >= _NOTIFY_TYPE + 2]
    found[rows] = read_uint16_be(clear.heap, begin + _NOTIFY_TYPE) == int(notify_type)
    return found


def find_unprotected_exchanges(
    exchanges: ExchangeColumns, messages: MessageColumns, exchange_of_message: Int32Array, in_clear: Int64Array
) -> BoolArray:
    """Which exchanges have responses, and none that is encrypted. (exchanges,)

    `in_clear` are the rows of the messages in the clear.
    """
    clear_responses = exchange_of_message[in_clear[messages.response[in_clear]]]
    count = np.bincount(clear_responses, minlength=len(exchanges))
    return np.asarray((count > 0) & (count == exchanges.response_messages))
