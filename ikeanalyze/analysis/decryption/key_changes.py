"""Which IKE_INTERMEDIATE exchanges of an IKE SA change its keys, and so which epoch protects each message.

The keys change after each additional key exchange (RFC 9370, section 2.2.2), and after the exchange in which the peers
agree on a PPK (RFC 9867). The PPK may have an IKE_INTERMEDIATE exchange of its own, or share that of an additional key
exchange, after which the keys change once. The exchanges have the message IDs from 1 on (RFC 9242, section 3).

IKE_SA_INIT shows how many additional key exchanges there are, and whether the responder accepts a PPK. The decrypted
responses to IKE_INTERMEDIATE show the rest. Exchanges whose response could not be decrypted are assumed to have what
the others lack: first the additional key exchanges, then the PPK, or both in one if they are too few.

The key changes of an IKE SA are an integer, of which arrays have one for each IKE SA: bit n - 1 is set if the keys
change after the exchange with message ID n.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage, DecodedMessageList
from ikeanalyze.analysis.decryption.message_records import MessageRecords, RecordColumns
from ikeanalyze.analysis.decryption.negotiated_keys import NegotiatedKeys
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import Int64Array
from ikeanalyze.wire.ikev2.payloads import parse_notify
from ikeanalyze.wire.registries.ikev2 import ExchangeType, PayloadType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType

#: The key changes of an IKE SA whose IKE_SA_INIT is not in the capture.
UNKNOWN_KEY_CHANGES: Final = -1
_IKE_INTERMEDIATE: Final = int(ExchangeType.IKE_INTERMEDIATE)
_IKE_AUTH: Final = int(ExchangeType.IKE_AUTH)
#: More IKE_INTERMEDIATE exchanges than an IKE SA has; those after them are ignored, so that their bits fit in an array.
_MAX_EXCHANGES: Final = 32
_NO_MESSAGE_ID: Final = 1 << 32


class IntermediateResponse(NamedTuple):
    """What a decrypted response to IKE_INTERMEDIATE shows about its exchange."""

    message_id: int
    has_key_exchange: bool
    uses_ppk: bool

    @property
    def changes_keys(self) -> bool:
        """Whether the keys change after the exchange."""
        return self.has_key_exchange or self.uses_ppk


def find_key_changes(
    state: AnalysisState,
    handshakes: Sequence[int],
    negotiated: Sequence[NegotiatedKeys],
    decrypted: Iterable[MessageRecords],
) -> Int64Array:
    """The key changes of each of these handshakes. (handshakes,)

    Args:
        state: the analysis of the captures so far.
        handshakes: their numbers.
        negotiated: what each of them negotiated.
        decrypted: the decrypted messages, of which only handshakes with a PPK need those of IKE_INTERMEDIATE.
    """
    additional = np.array([-1 if keys.additional is None else keys.additional for keys in negotiated], np.int64)
    key_changes = np.where(additional < 0, UNKNOWN_KEY_CHANGES, (1 << np.maximum(additional, 0)) - 1)
    with_ppk = np.flatnonzero([keys.accepts_ppk for keys in negotiated])
    if not len(with_ppk):
        return key_changes
    numbers = np.array(handshakes, np.int64)[with_ppk]
    exchanges = _count_exchanges(state, numbers)
    responses: dict[int, list[IntermediateResponse]] = {}
    for records in decrypted:
        for content in _list_responses(state, records, numbers):
            responses.setdefault(content.handshake, []).append(read_intermediate_response(content))
    for place, number, count in zip(with_ppk.tolist(), numbers.tolist(), exchanges.tolist(), strict=True):
        key_changes[place] = find_key_changes_with_ppk(int(additional[place]), count, responses.get(number, ()))
    return key_changes


def find_key_changes_with_ppk(additional: int, exchanges: int, responses: Iterable[IntermediateResponse]) -> int:
    """The key changes of an IKE SA whose responder accepts a PPK in IKE_INTERMEDIATE.

    Args:
        additional: number of additional key exchanges that IKE_SA_INIT negotiated.
        exchanges: number of IKE_INTERMEDIATE exchanges.
        responses: the decrypted ones of them.
    """
    read = {response.message_id: response for response in responses if 0 < response.message_id <= _MAX_EXCHANGES}
    # what is left for the exchanges that could not be read
    key_exchanges = max(additional - sum(response.has_key_exchange for response in read.values()), 0)
    ppks = 0 if any(response.uses_ppk for response in read.values()) else 1
    unread = [number for number in range(1, max(exchanges, additional) + 1) if number not in read]
    changing = [*unread[: key_exchanges + ppks], *(number for number in read if read[number].changes_keys)]
    return sum(1 << (number - 1) for number in changing)


def read_intermediate_response(content: DecodedMessage) -> IntermediateResponse:
    """What a decrypted response to IKE_INTERMEDIATE shows.

    The responder names the PPK that it uses in PPK_IDENTITY. Without it, the IKE SA continues without a PPK (RFC 9867).
    """
    notifies = content.parse_bodies(PayloadType.NOTIFY, parse_notify)
    return IntermediateResponse(
        content.message_id,
        has_key_exchange=bool(content.get_bodies(PayloadType.KE)),
        uses_ppk=any(notify.type == NotifyType.PPK_IDENTITY for notify in notifies),
    )


def _list_responses(state: AnalysisState, records: MessageRecords, handshakes: Int64Array) -> DecodedMessageList:
    """The responses to IKE_INTERMEDIATE of these handshakes."""
    columns, messages = records.columns, state.messages
    is_wanted = (messages.exchange_type[columns.message] == _IKE_INTERMEDIATE) & messages.response[columns.message]
    is_wanted &= np.isin(state.association.handshake[columns.row], handshakes)
    return DecodedMessageList(state, replace(records, columns=columns.select(np.flatnonzero(is_wanted))))


def _count_exchanges(state: AnalysisState, handshakes: Int64Array) -> Int64Array:
    """Number of IKE_INTERMEDIATE exchanges of each handshake. (handshakes,)

    IKE_AUTH follows the last one and has the next message ID: so those that the capture lacks count, too. One if the
    capture has neither.
    """
    messages, count = state.messages, state.association.count
    is_wanted = np.zeros(count, np.bool_)
    is_wanted[handshakes] = True
    message_id = messages.message_id.astype(np.int64)
    is_message_wanted = is_wanted[messages.handshake] & messages.initiator_asked & (message_id <= _MAX_EXCHANGES + 1)
    last, first_auth = np.ones(count, np.int64), np.full(count, _NO_MESSAGE_ID)
    intermediate = np.flatnonzero(is_message_wanted & (messages.exchange_type == _IKE_INTERMEDIATE))
    np.maximum.at(last, messages.handshake[intermediate], message_id[intermediate])
    auth = np.flatnonzero(is_message_wanted & (messages.exchange_type == _IKE_AUTH))
    np.minimum.at(first_auth, messages.handshake[auth], message_id[auth])
    exchanges = np.where(first_auth == _NO_MESSAGE_ID, last, first_auth - 1)
    return np.clip(exchanges, 0, _MAX_EXCHANGES)[handshakes]


def count_key_changes(key_changes: Int64Array) -> Int64Array:
    """How often the keys of each IKE SA change: its last epoch; -1: unknown. (IKE SAs,)"""
    return _count_bits(key_changes, np.full(len(key_changes), _MAX_EXCHANGES))


def find_protecting_epochs(state: AnalysisState, message: Int64Array, key_changes: Int64Array) -> Int64Array:
    """The epoch of the keys that protect each encrypted message, whether or not they are known. (messages,)

    Args:
        state: the analysis of the captures so far.
        message: rows of Messages. (messages,)
        key_changes: of the IKE SA of each message. If they are unknown, so are the epochs of other messages than
            IKE_INTERMEDIATE, and all of these are assumed to change the keys. (messages,)
    """
    before = np.maximum(state.messages.message_id[message].astype(np.int64) - 1, 0)
    is_intermediate = state.messages.exchange_type[message] == _IKE_INTERMEDIATE
    epoch = _count_bits(key_changes, np.where(is_intermediate, before, _MAX_EXCHANGES))
    return np.where(is_intermediate & (key_changes < 0), before, epoch)


def find_epochs(state: AnalysisState, columns: RecordColumns, key_changes: Int64Array) -> Int64Array:
    """The epoch of the keys that decrypted each message; -1: unknown, a clear message, or IKEv1. (messages,)

    `key_changes`: of the IKE SA of each message. If they are unknown, the position among the key sets of the IKE SA is
    the epoch. (messages,)
    """
    epoch = find_protecting_epochs(state, columns.message, key_changes)
    is_intermediate = state.messages.exchange_type[columns.message] == _IKE_INTERMEDIATE
    epoch = np.where((key_changes < 0) & ~is_intermediate, columns.position, epoch)
    epoch[columns.keys < 0] = -1
    return epoch


def _count_bits(key_changes: Int64Array, before: Int64Array) -> Int64Array:
    """How many of the first `before` bits are set; -1: the changes are unknown. (n,) each"""
    count = np.where(key_changes < 0, -1, 0)
    for number in range(int(key_changes.max(initial=0)).bit_length()):  # few: captures have none or one
        count += (key_changes >= 0) & (key_changes >> number & 1 != 0) & (number < before)
    return count
