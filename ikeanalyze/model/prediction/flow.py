"""A recorded handshake as a prediction takes it: which messages went to and fro, how large, and what each side did between.

Nothing here knows of tables or of the link that is predicted for.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

Side = Literal["initiator", "responder"]

UDP_HEADER: Final = 8
#: Four zero bytes before an IKE message on port 4500 (RFC 3948, section 2.2) and in TCP (RFC 9329, section 3.1).
NON_ESP_MARKER: Final = 4

#: Bytes of the IV and of the block that padding fills, by the beginning of the cipher's name; the first that fits.
_CIPHERS: Final = (
    (re.compile(r".*-(CCM|GCM)-|CHACHA20|.*-CTR|NULL-AUTH"), 8, 1),
    (re.compile(r"3DES|DES|3IDEA|IDEA|CAST|BLOWFISH"), 8, 8),
    (re.compile(r"(AES|CAMELLIA)-CBC"), 16, 16),
    (re.compile(r"NULL"), 0, 1),
)
_TAG: Final = re.compile(r"-(?:CCM|GCM)-(8|12|16)\b")
_TRUNCATED: Final = re.compile(r"-(96|128|160|192|256)$")


@dataclass(frozen=True, slots=True)
class EncryptionOverhead:
    """What encryption adds to a message besides its headers (RFC 7296, section 3.14)."""

    iv: int  # bytes
    block: int  # plaintext, padding and pad length are a multiple of so many bytes
    icv: int  # bytes


@dataclass(frozen=True, slots=True)
class FlowDatagram:
    """One UDP datagram's worth: a whole IKE message, or a fragment of it (RFC 7383)."""

    ike_bytes: int  # by its own header, without non-ESP marker
    frames: tuple[int, ...]  # bytes of each frame that carried it, link header included; several: IP fragments


@dataclass(frozen=True, slots=True)
class FlowMessage:
    """One transmission of an IKE (or HIP) message."""

    parts: tuple[FlowDatagram, ...]
    encrypted: bool  # in an SK or SKF payload, so that RFC 7383 may fragment it
    marker: int  # bytes of the non-ESP marker
    transport: int  # bytes of the UDP header; 0: right on IP
    ip: int  # bytes of the IP header
    link: int  # bytes of the link header

    @property
    def bytes(self) -> int:
        """Bytes of its frames as they were recorded."""
        return sum(sum(part.frames) for part in self.parts)


@dataclass(frozen=True, slots=True)
class FlowExchange:
    """A request and its response, and the time that the two sides took."""

    type: str  # IKE_SA_INIT, IKE_AUTH...
    message_id: int | None  # None: HIP, which has none
    asker: Side
    request: FlowMessage
    response: FlowMessage | None  # None: IKEv1's third messages, which nothing answers
    before_ns: int  # from the message before it to this request, the asker computes; 0 for the first
    answer_ns: int | None  # from request to response, without what the AAA server took; None: unknown
    aaa_ns: int  # that the responder waited for the AAA server
    aaa_round_trips: int  # RADIUS requests that were answered in this time

    @property
    def name(self) -> str:
        """Type and message ID."""
        return self.type if self.message_id is None else f"{self.type} {self.message_id}"


@dataclass(frozen=True, slots=True)
class HandshakeFlow:
    """A whole handshake, from its first request to its last response."""

    capture: str
    handshake: int  # its id in the report
    others: int  # whole handshakes of the capture besides it
    protocol: str  # "IKEv2", "IKEv1" or "HIP"
    exchanges: tuple[FlowExchange, ...]
    fragmentation: bool  # both sides announced RFC 7383
    protection: EncryptionOverhead | None  # None: the cipher is not known
    setup_ns: int  # as it was recorded
    #: How the path's time was told from computation: "given", "manifest" (the lab's, beside the capture), "estimated" (the shortest
    #: time seen is taken for it), or None: it could not be, so that the times of computation contain it.
    path: Literal["given", "manifest", "estimated"] | None
    path_rtt_ns: int | None  # that was taken off

    @property
    def bytes(self) -> int:
        """Bytes of all frames, each message sent once, as they were recorded."""
        return sum(
            message.bytes for exchange in self.exchanges for message in (exchange.request, exchange.response) if message
        )

    @property
    def messages(self) -> int:
        """Messages, each sent once."""
        return sum(1 + (exchange.response is not None) for exchange in self.exchanges)

    @property
    def unknown(self) -> list[str]:
        """Computation that the capture does not tell, in words."""
        return [
            f"{'responder' if exchange.asker == 'initiator' else 'initiator'} in {exchange.name}"
            for exchange in self.exchanges
            if exchange.response is not None and exchange.answer_ns is None
        ]

    def computation_ns(self, side: Side) -> int | None:
        """All that `side` computes within the set-up; None: a part of it is unknown."""
        total = 0
        for exchange in self.exchanges:
            if exchange.asker == side:
                total += exchange.before_ns
            elif exchange.response is not None:
                if exchange.answer_ns is None:
                    return None
                total += exchange.answer_ns
        return total


def get_encryption_overhead(encryption: str | None, integrity: str | None) -> EncryptionOverhead | None:
    """What the algorithms of an IKE SA add, by their names in the report; None: they are not known.

    AES-GCM and the like: RFC 5282; ChaCha20-Poly1305: RFC 7634; AES-CBC: RFC 3602; the length of an HMAC stands in its name.
    """
    name = (encryption or "").upper()
    sizes = next(((iv, block) for pattern, iv, block in _CIPHERS if pattern.match(name)), None)
    if sizes is None:
        return None
    iv, block = sizes
    if tag := _TAG.search(name):
        return EncryptionOverhead(iv, block, int(tag[1]))
    if name.startswith("CHACHA20") or "GMAC" in name:
        return EncryptionOverhead(iv, block, 16)
    truncated = _TRUNCATED.search((integrity or "").upper())
    return EncryptionOverhead(iv, block, int(truncated[1]) // 8) if truncated else None
