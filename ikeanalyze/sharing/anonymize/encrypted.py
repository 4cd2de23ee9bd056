"""Encrypted messages with other contents, under the same keys and of the same sizes.

Each message that the keys decrypt is decrypted, its payloads are rewritten as those of clear messages are, and it is
encrypted again. The IV is a new one, derived from the old one: with the same IV and another plaintext, AES-GCM and
other counter modes would show the difference of both plaintexts to anyone who has both captures, and allow forgeries.

Values that depend on the contents are not valid any more: AUTH payloads become pseudorandom, and IntAuth and AUTH of
the original do not fit the new messages. Keys still decrypt, because key derivation only uses SPIs, nonces and key
exchange values, which stay.
"""

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage, DecodedMessages
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.buffers import MessageBytes
from ikeanalyze.capture.decode.ip import ADDRESS_BITS, FIRST_IPV6
from ikeanalyze.crypto.algorithms import IkeSuite
from ikeanalyze.crypto.sk_payload import (
    MessageCipher,
    UnusableKeyError,
    find_encrypted_payload,
    get_iv,
    replace_plaintext,
)
from ikeanalyze.keys.key_set import KeySet
from ikeanalyze.sharing.anonymize.capture import KeyedContents
from ikeanalyze.sharing.anonymize.messages import find_encrypted
from ikeanalyze.sharing.anonymize.payloads import MessageContext, SeenEndpoint, rewrite_chain, rewrite_payload
from ikeanalyze.sharing.anonymize.pseudonyms import Pseudonyms
from ikeanalyze.sharing.used_keys import SuiteLookup, UsedKeyCollector
from ikeanalyze.wire.header import HEADER, NEXT_PAYLOAD_OFFSET, SPI_BYTES


class EncryptedMessageRewriter:
    """Collects the new bytes of each message that the keys decrypt; `take` is a callback of the analysis."""

    def __init__(self, pseudonyms: Pseudonyms) -> None:
        self.used = UsedKeyCollector()
        self._replaced: dict[bytes, bytes] = {}
        self._pseudonyms = pseudonyms
        self._decryptors: dict[tuple[int, IkeSuite | None], MessageCipher | None] = {}

    def get_contents(self) -> KeyedContents:
        """What was collected."""
        return KeyedContents(self._replaced, frozenset(self.used.spis))

    def take(self, state: AnalysisState, encrypted: MessageBytes, contents: DecodedMessages) -> None:
        """Rewrite the messages of a capture (`ReadOptions.on_contents`)."""
        suites = SuiteLookup(contents)
        for message in contents.all:
            self.used.add(message, suites)
            if message.keys is None:  # a clear message, or IKEv1, where each message depends on the one before
                continue
            decryptor = self._get_decryptor(message.keys, suites.find(message))
            if decryptor is not None:
                self._rewrite(state, encrypted, message, decryptor)

    def _get_decryptor(self, keys: KeySet, suite: IkeSuite | None) -> MessageCipher | None:
        place = id(keys), suite
        if place not in self._decryptors:
            try:
                self._decryptors[place] = MessageCipher(keys, suite)
            except UnusableKeyError:
                self._decryptors[place] = None
        return self._decryptors[place]

    def _rewrite(
        self,
        state: AnalysisState,
        encrypted: MessageBytes,
        content: DecodedMessage,
        decryptor: MessageCipher,
    ) -> None:
        """Rewrite a message, or the fragments of one, whose payloads may begin in one and end in another."""
        datagrams = state.datagrams
        datagrams = datagrams.datagram[list(content.datagrams)].tolist()
        parts = [encrypted.get(datagram) or state.clear.get(datagram) or b"" for datagram in datagrams]
        from_initiator = content.from_initiator
        pieces = [decryptor.decrypt(part, from_initiator) for part in parts]
        context = self._make_context(state, max(content.datagrams), content.header)
        plaintext = rewrite_chain(content.plaintext, content.first, context, rewrite_payload)
        for part, piece in zip(parts, pieces, strict=True):
            payload = find_encrypted_payload(part)
            if piece is None or payload is None:
                return  # then the messages are overwritten
            size = len(piece.plaintext)
            iv = self._pseudonyms.map_bytes(get_iv(decryptor, payload))
            associated = _rewrite_clear_part(payload.message[: payload.start], context)
            new = replace_plaintext(decryptor, part, from_initiator, associated, plaintext[:size], iv)
            if new is not None:
                self._replaced[payload.message] = new
            plaintext = plaintext[size:]

    def _make_context(self, state: AnalysisState, row: int, header: bytes) -> MessageContext:
        datagrams = state.datagrams
        source, destination = (
            SeenEndpoint(_decode_address(int(codes[row]), state), int(ports[row]))
            for codes, ports in (
                (datagrams.source, datagrams.source_port),
                (datagrams.destination, datagrams.destination_port),
            )
        )
        return MessageContext(header[: 2 * SPI_BYTES], source, destination, self._pseudonyms)


def _decode_address(code: int, state: AnalysisState) -> bytes:
    code &= ADDRESS_BITS
    return state.addresses[code - FIRST_IPV6] if code >= FIRST_IPV6 else code.to_bytes(4, "big")


def _rewrite_clear_part(before: bytes, context: MessageContext) -> bytes:
    """What is before the IV: header, clear payloads, and the header of the encrypted payload."""
    first = before[NEXT_PAYLOAD_OFFSET]
    chain = before[HEADER.size :]
    start = find_encrypted(chain, first)
    if not start:
        return before
    return before[: HEADER.size] + rewrite_chain(chain[:start], first, context, rewrite_payload) + chain[start:]
