"""Numbers of HIP exchanges, which share a column with the exchange types of IKE.

An exchange has the packet type of its request plus 128: 129 is I1-R1, 131 I2-R2, 144 UPDATE, 146 CLOSE-CLOSE_ACK. No
exchange of IKE has such a number, so code that searches for an IKE exchange never finds a HIP packet. The third message
of an UPDATE, which acknowledges an answer (RFC 8046, section 3.2.1), is a separate exchange: 16, the packet type.
"""

from typing import Final

import numpy as np

from ikeanalyze.analysis.messages.messages import MessageColumns
from ikeanalyze.capture.arrays import UInt8Array
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.registries.hip import HipPacketType

#: Added to the packet type of a request to number its exchange.
EXCHANGE: Final = 128
I1_R1: Final = EXCHANGE + HipPacketType.I1
I2_R2: Final = EXCHANGE + HipPacketType.I2
NOTIFY: Final = EXCHANGE + HipPacketType.NOTIFY
CLOSE: Final = EXCHANGE + HipPacketType.CLOSE


def get_exchange_types(messages: MessageColumns) -> UInt8Array:
    """The exchange types of messages; of HIP messages the packet types. (n,)"""
    hip = np.equal(messages.protocol, Protocol.HIP)
    if not hip.any():
        return messages.exchange_type
    asked = messages.exchange_type & np.uint8(EXCHANGE - 1)
    # except for UPDATE, the type of an answer is one more than that of the packet that it answers
    answers = messages.response & (asked != HipPacketType.UPDATE)
    return np.where(hip, asked + answers.astype(np.uint8), messages.exchange_type)
