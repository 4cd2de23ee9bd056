"""Find the exchanges that got only unencrypted responses.

After IKE_SA_INIT all messages are encrypted. A host that does not know the IKE SA of a request may respond with a
notify in the clear (RFC 7296, section 1.5), usually INVALID_IKE_SPI. The other side must not rely on it (section 2.4),
because anyone can send it: it repeats its request as if there were no response.
"""

from typing import Final

import numpy as np

from ikeanalyze.analysis.exchanges.exchanges import ExchangeColumns
from ikeanalyze.analysis.messages.datagrams import Datagrams
from ikeanalyze.analysis.messages.messages import MessageColumns
from ikeanalyze.capture.arrays import BoolArray, Int32Array, Int64Array, UInt32Array, read_uint16_be
from ikeanalyze.capture.buffers import Columns, MessageBytes
from ikeanalyze.capture.decode.classify import Protocol
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
#: Offset of the notify type: after the IKE header, the generic header, protocol ID and SPI size (RFC 7296, 3.10).
_NOTIFY_TYPE: Final = 28 + 4 + 2


def find_clear_notifies(columns: Columns) -> UInt32Array:
    """The datagrams, as in the frames, of IKEv2 messages of encrypted exchanges that are a notify in the clear."""
    rows = np.flatnonzero(columns["next_payload"] == int(PayloadType.NOTIFY))
    rows = rows[np.isin(columns["exchange_type"][rows], _ENCRYPTED)]
    rows = rows[columns["ike_bytes"][rows] < _SHORTEST_ENCRYPTED]
    rows = rows[columns["protocol"][rows] == int(Protocol.IKEV2)]
    return np.asarray(columns["unit"][rows])


def find_invalid_spi_notifies(datagrams: Datagrams, in_clear: BoolArray, clear: MessageBytes) -> BoolArray:
    """Which datagrams are INVALID_SPI outside of an IKE SA: about an ESP or AH packet (RFC 7296, 1.5). (datagrams,)

    It is a request in the clear with any SPIs, and nothing answers it. `in_clear`: of `find_clear_notifies`.
    """
    is_about_esp: BoolArray = (
        in_clear & (datagrams.exchange_type == int(ExchangeType.INFORMATIONAL)) & ~datagrams.is_response
    )
    rows = np.flatnonzero(is_about_esp)
    begin, size = clear.places(datagrams.datagram[rows])
    is_about_esp[rows[size < _NOTIFY_TYPE + 2]] = False
    rows, begin = rows[size >= _NOTIFY_TYPE + 2], begin[size >= _NOTIFY_TYPE + 2]
    is_about_esp[rows] = read_uint16_be(clear.heap, begin + _NOTIFY_TYPE) == int(NotifyType.INVALID_SPI)
    return is_about_esp


def find_unprotected_exchanges(
    exchanges: ExchangeColumns, messages: MessageColumns, exchange_of_message: Int32Array, in_clear: Int64Array
) -> BoolArray:
    """Which exchanges have responses, and none that is encrypted. (exchanges,)

    `in_clear` are the rows of the messages in the clear.
    """
    clear_responses = exchange_of_message[in_clear[messages.response[in_clear]]]
    count = np.bincount(clear_responses, minlength=len(exchanges))
    return np.asarray((count > 0) & (count == exchanges.response_messages))
