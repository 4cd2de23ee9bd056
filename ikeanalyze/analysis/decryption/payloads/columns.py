"""The payloads of many decoded messages as columns: type, offset and length of each, without an object.

Only regular messages are parsed here: messages of IKEv2, clear or with nothing but the encrypted payload after the
header, whose chain of payloads is complete. All others are decoded one by one (`decoded_messages`).
"""

from typing import Final

import numpy as np
from msgspec import Struct

from ikeanalyze import core
from ikeanalyze.analysis.decryption.message_records import MessageRecords
from ikeanalyze.analysis.grouping import argsort_stable
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt8Array, read_uint8, read_uint16_be, read_uint32_be
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.header import HEADER, LENGTH_OFFSET, NEXT_PAYLOAD_OFFSET
from ikeanalyze.wire.payload_chain import FLAG_CRITICAL, PAYLOAD_HEADER, Payload
from ikeanalyze.wire.registries.ikev2 import PayloadType

#: Messages with more payloads are decoded one by one: each step of the walk costs as much for one message as for many.
_MAX_PAYLOADS: Final = 64


class PayloadColumns(Struct, frozen=True):
    """The payloads of regular messages, in the order of the messages. (payloads,) each"""

    heap: UInt8Array  # the bytes of the messages
    message: Int64Array  # index of the decoded message
    type: UInt8Array
    critical: BoolArray
    begin: Int64Array  # offset of the body in the heap, after the generic header
    size: Int64Array  # bytes of the body
    starts: Int64Array  # row of the first payload of each decoded message, and the number of rows. (messages + 1,)
    regular: BoolArray  # which decoded messages have their payloads here. (messages,)

    def __len__(self) -> int:
        return len(self.message)

    def get_payload(self, row: int) -> Payload:
        """One payload as an object; its offset in the message is unknown."""
        begin = int(self.begin[row])
        body = self.heap[begin : begin + int(self.size[row])].tobytes()
        return Payload(int(self.type[row]), bool(self.critical[row]), body, 0)


class DecodedColumns(Struct, frozen=True):
    """Decoded messages as columns, and their payloads. (messages,) each"""

    handshake: Int64Array  # row of the handshake
    exchange: Int64Array  # row of the exchange
    protocol: UInt8Array
    exchange_type: UInt8Array
    message_id: Int64Array
    from_initiator: BoolArray
    response: BoolArray
    set_up: BoolArray
    frame: Int64Array
    encrypted: BoolArray
    epoch: Int64Array  # -1: unknown
    verified: BoolArray  # the ICV is correct
    payloads: PayloadColumns

    def __len__(self) -> int:
        return len(self.handshake)


def build_decoded_columns(state: AnalysisState, records: MessageRecords, epochs: Int64Array) -> DecodedColumns:
    """Build the columns of decoded messages; `epochs`: of each, -1: unknown."""
    columns = records.columns
    message, sent = columns.message, state.messages
    exchange = state.exchange_of_message[message].astype(np.int64)
    return DecodedColumns(
        handshake=state.association.handshake[columns.row].astype(np.int64),
        exchange=exchange,
        protocol=sent.protocol[message],
        exchange_type=sent.exchange_type[message],
        message_id=sent.message_id[message].astype(np.int64),
        from_initiator=sent.from_initiator[message],
        response=sent.response[message],
        set_up=state.exchanges.set_up[exchange],
        frame=state.datagrams.number[columns.row].astype(np.int64),
        encrypted=columns.encrypted,
        epoch=epochs,
        verified=columns.verified,
        payloads=_parse_messages(records, sent.protocol[message] == Protocol.IKEV2),
    )


def _parse_messages(records: MessageRecords, is_ikev2: BoolArray) -> PayloadColumns:
    """Parse the regular ones of these messages."""
    heap, columns = records.heap, records.columns
    begin, size, is_clear = columns.begin, columns.size, ~columns.encrypted
    next_payload = read_uint8(heap, begin + NEXT_PAYLOAD_OFFSET)
    regular = is_ikev2 & (size >= HEADER.size) & (is_clear | _is_encrypted(next_payload))
    # bytes after the length in the header do not belong to a clear message
    length = np.maximum(read_uint32_be(heap, begin + LENGTH_OFFSET), HEADER.size)
    end = begin + np.where(is_clear, np.minimum(size, length), size)
    return _walk_chains(heap, begin + HEADER.size, end, np.where(is_clear, next_payload, columns.first), regular)


def _is_encrypted(kind: UInt8Array) -> BoolArray:
    """Which payload types are those of encrypted payloads."""
    return np.asarray((kind == PayloadType.SK) | (kind == PayloadType.SKF), np.bool_)


def _walk_chains(
    heap: UInt8Array, begin: Int64Array, end: Int64Array, first: UInt8Array, regular: BoolArray
) -> PayloadColumns:
    """Walk the chains of all messages at once, one payload of each message in a step.

    `begin`, `end`: offsets of the chain of each message. `first`: type of its first payload. `regular`: the messages to
    parse. (messages,) each
    """
    if core.compiled is not None:
        walked = core.compiled.walk_chains(heap, begin, end, first, regular, _MAX_PAYLOADS)
        columns = {name: walked[name] for name in ("message", "type", "critical", "begin", "size")}
        starts = np.concatenate([[0], walked["ends"]])
        return PayloadColumns(heap=heap, starts=starts, regular=walked["complete"], **columns)
    regular = regular.copy()
    at, kind = begin.copy(), first.astype(np.uint8)
    active = np.flatnonzero(regular & (kind != 0))
    steps: list[tuple[Int64Array, UInt8Array, UInt8Array, Int64Array, Int64Array]] = []
    for _ in range(_MAX_PAYLOADS):
        if not len(active):
            break
        here = at[active]
        length = read_uint16_be(heap, here + 2).astype(np.int64)
        fits = (here + PAYLOAD_HEADER.size <= end[active]) & (length >= PAYLOAD_HEADER.size)
        fits &= here + length <= end[active]
        if not fits.all():
            regular[active[~fits]] = False
            active, here, length = active[fits], here[fits], length[fits]
        steps.append((active, kind[active], heap[here + 1], here + PAYLOAD_HEADER.size, length - PAYLOAD_HEADER.size))
        # the next payload field of an encrypted payload is the type of the first payload inside
        ended = _is_encrypted(kind[active])
        kind[active] = np.where(ended, 0, heap[here])
        at[active] = here + length
        active = active[kind[active] != 0]
    regular[active] = False
    empty = (np.zeros(0, np.int64), np.zeros(0, np.uint8), np.zeros(0, np.uint8), *[np.zeros(0, np.int64)] * 2)
    message, kinds, flags, body, size = (np.concatenate(column) for column in zip(empty, *steps, strict=True))
    order = argsort_stable(message)
    order = order[regular[message[order]]]
    counts = np.bincount(message[order], minlength=len(begin))
    return PayloadColumns(
        heap=heap,
        message=message[order],
        type=kinds[order],
        critical=flags[order] & FLAG_CRITICAL != 0,
        begin=body[order],
        size=size[order],
        starts=np.concatenate([[0], np.cumsum(counts)]),
        regular=regular,
    )
