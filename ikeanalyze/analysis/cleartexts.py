"""Decrypted messages as they would stand in clear: SK or SKF replaced by the payloads that were inside."""

from dataclasses import dataclass, field

import numpy as np

from ikeanalyze.analysis.contents import DecodedMessage, DecodedMessages
from ikeanalyze.analysis.units import IKEV1_ENCRYPTED
from ikeanalyze.capture.arrays import Int64Array
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.header import HEADER
from ikeanalyze.wire.payload_chain import PAYLOAD_HEADER, Payload

_CRITICAL = 0x80


@dataclass(frozen=True, slots=True)
class Cleartext:
    """One message in clear."""

    message: bytes = field(repr=False)  # with its IKE header, whose next payload and length are right
    epoch: int | None  # of the keys; None: IKEv1
    verified: bool  # the ICV fits; False: there is none to check
    fragments: int = 1  # that it was put together from


def collect_cleartexts(contents: DecodedMessages, ids: Int64Array) -> dict[int, Cleartext]:
    """All that was decrypted, by message id; `ids` are those of the rows of Messages."""
    found: dict[int, Cleartext] = {}
    texts: dict[int, Cleartext] = {}
    rows = np.flatnonzero(contents.of_message >= 0)
    for row, index in zip(rows.tolist(), contents.of_message[rows].tolist(), strict=True):
        content = contents.all[index]
        if not content.encrypted:
            continue
        if index not in texts:
            texts[index] = Cleartext(
                build_cleartext_message(content), content.epoch, bool(content.verified), max(len(content.units), 1)
            )
        found[int(ids[row])] = texts[index]
    return found


def build_cleartext_message(content: DecodedMessage) -> bytes:
    """The message without its encryption (RFC 7296, sections 3.1 and 3.2; of IKEv1 RFC 2408, section 3.1)."""
    spi_i, spi_r, _, version, exchange_type, flags, message_id, _ = HEADER.unpack(content.header)
    before = content.payloads[: content.clear]
    chain = _chain(before, content.first) + content.plaintext
    first = before[0].type if before else content.first
    if content.protocol == Protocol.IKEV1:
        flags &= ~IKEV1_ENCRYPTED
    return HEADER.pack(spi_i, spi_r, first, version, exchange_type, flags, message_id, HEADER.size + len(chain)) + chain


def _chain(payloads: tuple[Payload, ...], following: int) -> bytes:
    """The payloads that stood before the encrypted one, the last of which leads to what was inside."""
    types = [*(payload.type for payload in payloads), following][1:]
    return b"".join(
        PAYLOAD_HEADER.pack(kind, _CRITICAL * payload.critical, PAYLOAD_HEADER.size + len(payload.body)) + payload.body
        for payload, kind in zip(payloads, types, strict=True)
    )
