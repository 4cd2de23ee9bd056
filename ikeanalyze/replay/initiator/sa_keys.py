"""Keys of one IKE SA through its epochs: encryption, decryption and IntAuth."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Final

from ikeanalyze.crypto.algorithms import IkeSuite, PrfAlgorithm
from ikeanalyze.crypto.auth import combined_int_auth, get_int_auth_octets, int_auth
from ikeanalyze.crypto.key_schedule import SessionKeys, session_keys, skeyseed, skeyseed_after_additional
from ikeanalyze.crypto.sk_payload import DecryptedMessage, EncryptedPayload, MessageCipher
from ikeanalyze.crypto.skf_fragments import encrypt_message_or_fragments
from ikeanalyze.keys.key_set import Derivation, KeySet, Origin
from ikeanalyze.wire.header import FLAG_INITIATOR, FLAG_RESPONSE, VERSION_IKEV2, Header
from ikeanalyze.wire.ikev2.encode import Payload, encode_chain
from ikeanalyze.wire.registries.ikev2_transforms import Prf

#: Origin of the keys in an exported file.
_ORIGIN: Final = Origin("replay", None)


class IkeSaKeys:
    """Encrypts our messages and decrypts the responder's. Each additional key exchange replaces the keys."""

    keys: SessionKeys  # of the current epoch

    def __init__(
        self,
        prf: PrfAlgorithm,
        suite: IkeSuite,
        secret: bytes,
        spis: tuple[bytes, bytes],
        nonces: tuple[bytes, bytes],
        randomness: Callable[[int], bytes],
    ) -> None:
        """`secret`: that of the first key exchange. `spis`, `nonces`: the initiator's, then the responder's."""
        self.prf = prf
        self._suite = suite
        self._spi_i, self._spi_r = spis
        self._nonces = nonces[0] + nonces[1]
        self._randomness = randomness
        self._int_auth_i = self._int_auth_r = b""
        self.key_sets: list[KeySet] = []  # by epoch
        self._derive(secret, skeyseed(prf, secret, *nonces))

    def add_key_exchange(self, secret: bytes) -> None:
        """Start the next epoch with the secret of an additional key exchange (RFC 9370, section 2.2.2)."""
        self._derive(secret, skeyseed_after_additional(self.prf, self.keys.sk_d, secret, self._nonces))

    def encrypt_message(
        self,
        exchange_type: int,
        message_id: int,
        payloads: list[Payload],
        fragment_size: int | None,
        *,
        response: bool = False,
    ) -> tuple[list[bytes], DecryptedMessage]:
        """Return our message, fragmented if longer than `fragment_size` bytes, and its plaintext."""
        first, plaintext = encode_chain(payloads)
        flags = FLAG_INITIATOR | FLAG_RESPONSE * response
        header = Header(self._spi_i, self._spi_r, 0, VERSION_IKEV2, exchange_type, flags, message_id, 0)
        parts = encrypt_message_or_fragments(
            self.key_sets[-1], header, first, plaintext, fragment_size, self._randomness, suite=self._suite
        )
        return parts, DecryptedMessage(plaintext, first, verified=True)

    def decrypt_payload(self, payload: EncryptedPayload) -> DecryptedMessage | None:
        """Decrypt a message of the responder; None if decryption fails."""
        return self._decryptor.decrypt_payload(payload, from_initiator=False)

    def authenticate_intermediate(
        self, request: tuple[bytes, DecryptedMessage], response: tuple[bytes, DecryptedMessage]
    ) -> None:
        """Add an IKE_INTERMEDIATE exchange to IntAuth (RFC 9242, section 3.3.2), before its keys change.

        `request`, `response`: the message or its first fragment, and its plaintext.
        """
        self._int_auth_i = int_auth(self.prf, self.keys.sk_pi, self._int_auth_i, get_int_auth_octets(*request))
        self._int_auth_r = int_auth(self.prf, self.keys.sk_pr, self._int_auth_r, get_int_auth_octets(*response))

    def combined_int_auth(self, message_id: int) -> bytes:
        """Return IntAuth for the signed octets, empty without IKE_INTERMEDIATE.

        `message_id`: that of the first IKE_AUTH request.
        """
        if not self._int_auth_i:
            return b""
        return combined_int_auth(self._int_auth_i, self._int_auth_r, message_id)

    def _derive(self, secret: bytes, seed: bytes) -> None:
        self.keys = session_keys(self.prf, self._suite, seed, self._nonces, self._spi_i, self._spi_r)
        name = f"PRF_{Prf(self.prf.transform).name}"
        self.key_sets.append(
            KeySet(
                origin=_ORIGIN,
                spi_i=self._spi_i,
                spi_r=self._spi_r,
                encryption=self._suite.encryption,
                integrity=self._suite.integrity,
                derivation=Derivation(secret, (), self._nonces, seed, name),
                **asdict(self.keys),
            )
        )
        self._decryptor = MessageCipher(self.key_sets[-1], self._suite)
