"""IKE messages with other identities and addresses.

Headers stay: SPIs are random, and keys are found by them. Encrypted contents stay too, unless keys are given: then a
message that they decrypt is replaced by the same message with other contents (see `encrypted`), and the encrypted
contents of all other messages of its IKE SA become pseudorandom.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

from ikeanalyze.sharing.anonymize.payloads import (
    MessageContext,
    SeenEndpoint,
    rewrite_chain,
    rewrite_payload,
)
from ikeanalyze.sharing.anonymize.phase1_payloads import rewrite_phase1_payload
from ikeanalyze.sharing.anonymize.pseudonyms import Pseudonyms
from ikeanalyze.wire.header import FLAG_ENCRYPTED, HEADER, SPI_BYTES
from ikeanalyze.wire.payload_chain import ENCRYPTED_TYPES, PAYLOAD_HEADER
from ikeanalyze.wire.registries.ikev1 import Ikev1PayloadType
from ikeanalyze.wire.registries.ikev2 import PayloadType

#: Fragment identifier, number and flags before the part of the message.
_IKEV1_FRAGMENT_HEADER: Final = 4
_SKF_NUMBERS: Final = 4
#: IKE SAs whose endpoints are remembered, and endpoints of each.
_MAX_IKE_SAS: Final = 100_000
_MAX_ENDPOINTS: Final = 16


class MessageAnonymizer:
    """Rewrites the IKE messages of a capture."""

    def __init__(
        self, pseudonyms: Pseudonyms, replaced: Mapping[bytes, bytes] | None = None, opened: Collection[bytes] = ()
    ) -> None:
        """`replaced`: encrypted messages or fragments that keys decrypted, and what takes their place.

        `opened`: initiator's SPIs of the IKE SAs that keys are for.
        """
        self.counts: Counter[str] = Counter()  # of messages: "rewritten", "kept", "overwritten"
        self._pseudonyms = pseudonyms
        self._replaced = replaced or {}
        self._opened = frozenset(opened)
        self._endpoints: dict[bytes, tuple[SeenEndpoint, ...]] = {}  # by initiator's SPI, in order of appearance

    def rewrite(self, data: bytes, source: SeenEndpoint, destination: SeenEndpoint) -> bytes:
        """An IKE message, complete or truncated, and what follows it in its datagram."""
        if len(data) < HEADER.size:
            return data[: 2 * SPI_BYTES] + self._pseudonyms.map_bytes(data[2 * SPI_BYTES :])
        _, _, first, version, _, flags, _, length = HEADER.unpack_from(data)
        end = min(max(length, HEADER.size), len(data))
        message, rest = data[:end], self._pseudonyms.map_bytes(data[end:])
        others = self._collect_endpoints(data[:SPI_BYTES], source, destination)
        context = MessageContext(data[: 2 * SPI_BYTES], source, destination, self._pseudonyms, others)
        if version >> 4 == 2:
            return self._rewrite_ikev2(message, first, context) + rest
        if flags & FLAG_ENCRYPTED:
            return self._rewrite_encrypted(message, HEADER.size) + rest
        if first == Ikev1PayloadType.FRAGMENT:
            return self._rewrite_ikev1_fragment(message) + rest
        header, chain = message[: HEADER.size], message[HEADER.size :]
        return header + rewrite_chain(chain, first, context, rewrite_phase1_payload) + rest

    def _collect_endpoints(self, spi: bytes, *ends: SeenEndpoint) -> tuple[SeenEndpoint, ...]:
        """The endpoints of an IKE SA so far: a capture on both sides of a NAT has the original and the new ones."""
        known = self._endpoints.get(spi, ())
        new = tuple(end for end in ends if end not in known)
        if new and len(known) < _MAX_ENDPOINTS:
            if len(self._endpoints) >= _MAX_IKE_SAS:
                del self._endpoints[next(iter(self._endpoints))]
            known = self._endpoints[spi] = (*known, *new)
        return known

    def _rewrite_ikev2(self, message: bytes, first: int, context: MessageContext) -> bytes:
        header, chain = message[: HEADER.size], message[HEADER.size :]
        start = find_encrypted(chain, first)
        if start is None:
            return header + rewrite_chain(chain, first, context, rewrite_payload)
        replaced = self._replaced.get(message)
        if replaced is not None:
            self.counts["rewritten"] += 1
            return replaced
        before = rewrite_chain(chain[:start], first, context, rewrite_payload) if start else b""
        body = HEADER.size + start + PAYLOAD_HEADER.size
        if _get_type(chain, first, start) == PayloadType.SKF:
            body += _SKF_NUMBERS
        return header + before + self._rewrite_encrypted(message, body)[HEADER.size + start :]

    def _rewrite_encrypted(self, message: bytes, start: int) -> bytes:
        """A message whose bytes from `start` on are encrypted, and are not replaced."""
        if message[:SPI_BYTES] not in self._opened:
            self.counts["kept"] += 1
            return message
        self.counts["overwritten"] += 1
        return message[:start] + self._pseudonyms.map_bytes(message[start:])

    def _rewrite_ikev1_fragment(self, message: bytes) -> bytes:
        """A fragment of an IKEv1 message. Only the first fragment shows whether the message is encrypted."""
        start = HEADER.size + PAYLOAD_HEADER.size + _IKEV1_FRAGMENT_HEADER
        inner = message[start : start + HEADER.size]
        if inner[:SPI_BYTES] == message[:SPI_BYTES] and len(inner) == HEADER.size:
            start += HEADER.size  # the header of the whole message
        self.counts["overwritten"] += 1
        return message[:start] + self._pseudonyms.map_bytes(message[start:])


def find_encrypted(chain: bytes, first: int) -> int | None:
    """Offset of the encrypted payload of IKEv2 in a chain of payloads; None: there is none."""
    at, kind = 0, first
    while kind and at + PAYLOAD_HEADER.size <= len(chain):
        if kind in ENCRYPTED_TYPES:
            return at
        kind, _, size = PAYLOAD_HEADER.unpack_from(chain, at)
        at += max(size, PAYLOAD_HEADER.size)
    return None


def _get_type(chain: bytes, first: int, start: int) -> int:
    """The type of the payload at `start`."""
    at, kind = 0, first
    while at < start:
        kind, _, size = PAYLOAD_HEADER.unpack_from(chain, at)
        at += max(size, PAYLOAD_HEADER.size)
    return kind
