"""Encrypted messages of IKEv2: opening them, and making them.

What is encrypted is the SK payload (RFC 7296, section 3.14) or SKF (RFC 7383, section 2.5), which is the last of its
message; payloads before it are in the clear and authenticated with it. A message opens if its ICV fits, and in no
other way: a wrong key gives nothing. Only where the keys themselves say that there is no ICV to check, what comes
out is looked at instead, and marked.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Final, NamedTuple, Protocol

from ikeanalyze.crypto.algorithms import ENCRYPTION, INTEGRITY, EncryptionAlgorithm, IkeSuite, IntegrityAlgorithm
from ikeanalyze.crypto.ciphers import AeadCipher, PlainCipher, make_aead_cipher, make_cipher
from ikeanalyze.crypto.key_schedule import MessageKeys
from ikeanalyze.crypto.macs import make_icv
from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.header import FLAG_RESPONSE, HEADER, Header
from ikeanalyze.wire.payload_chain import ENCRYPTED_TYPES, PAYLOAD_HEADER
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2 import PayloadType
from ikeanalyze.wire.registries.ikev2_transforms import Encryption, Integrity

__all__ = [
    "UnusableKeyError",
    "DecryptedMessage",
    "Decryptor",
    "EncryptedPayload",
    "IkeSuite",
    "find_encrypted_payload",
    "is_plausible_chain",
    "get_fragment_capacity",
    "encrypt_message",
]

#: Bound once: the lookup of an enum's member takes a fifth of the time of these loops.
_NONE: Final = PayloadType.NONE
_SKF: Final = PayloadType.SKF
#: Fragment number, total fragments.
_FRAGMENT: Final = Struct(">HH")
_RESERVED: Final = 0x7F  # of a payload's flags: all but the critical bit
_PAYLOAD_TYPES: Final = frozenset(PayloadType)
#: The most that anybody pads to without need: 4 bytes.
_LARGEST_PADDED_TO: Final = 4


class UnusableKeyError(ValueError):  # noqa: N818 - says what is the matter with a key, and is often no error
    """A key set can open nothing, and why. Has no secret in it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class DecryptedMessage:
    """What was inside an SK or SKF payload, or inside the fragments of one message together."""

    plaintext: bytes = field(repr=False)  # chain of payloads without padding; of an SKF payload, its part of it
    first: int  # type of the first payload; 0: there is none, or this is no first fragment
    verified: bool  # the ICV fits; False: the keys come without a way to check it


class EncryptedPayload(NamedTuple):
    """Where the encrypted payload is in a message.

    A named tuple, because one is made for each message of a capture and a dataclass takes three times as long.
    """

    message: bytes  # from the header to the end of the encrypted payload
    start: int  # where the IV begins: behind the payload's header and, in SKF, the fragment's numbers
    first: int  # type of the first payload inside
    fragment: tuple[int, int] | None  # fragment number and total fragments; None: the payload is SK
    message_id: int
    response: bool


def find_encrypted_payload(message: bytes) -> EncryptedPayload | None:
    """The encrypted payload of a whole IKEv2 message; None if there is none or it is not whole. Never raises.

    What is behind the message's length is no part of it.
    """
    cursor = Cursor(message)
    try:
        _, _, kind, version, _, flags, message_id, length = cursor.unpack(HEADER)
        if version >> 4 != 2 or length > len(message):
            return None
        if length < len(message):
            message = message[:length]
            cursor = Cursor(message, HEADER.size)
        while kind not in ENCRYPTED_TYPES:
            if kind == _NONE:
                return None
            kind, _, size = cursor.unpack(PAYLOAD_HEADER)
            cursor.skip(size - PAYLOAD_HEADER.size)
        start = cursor.position
        first, _, size = cursor.unpack(PAYLOAD_HEADER)
        if start + size != length:
            return None
        fragment = None
        if kind == _SKF:
            number, total = cursor.unpack(_FRAGMENT)
            if not 1 <= number <= total:
                return None
            fragment = number, total
    except WireError:
        return None
    return EncryptedPayload(message, cursor.position, first, fragment, message_id, bool(flags & FLAG_RESPONSE))


class _DirectionCipher(Protocol):
    """One sender's keys, ready for use."""

    def decrypt(self, message: bytes, start: int, behind_iv: int, end: int) -> bytes | None:
        """Plaintext with padding; `start`, `behind_iv`, `end`: where the IV begins, the ciphertext, the ICV."""

    def encrypt(self, associated: bytes, iv: bytes, padded: bytes) -> bytes:
        """IV, ciphertext and ICV; `associated`: the message before the IV."""


class _AeadDirection:
    """RFC 5282, section 5: what is before the IV is the associated data."""

    __slots__ = ("_cipher",)

    def __init__(self, cipher: AeadCipher) -> None:
        self._cipher = cipher

    def decrypt(self, message: bytes, start: int, behind_iv: int, end: int) -> bytes | None:  # noqa: ARG002
        return self._cipher.decrypt(message[start:behind_iv], message[behind_iv:], message[:start])

    def encrypt(self, associated: bytes, iv: bytes, padded: bytes) -> bytes:
        return iv + self._cipher.encrypt(iv, padded, associated)


class _EncryptThenMac:
    """RFC 7296, section 3.14: the ICV is over all that is before it."""

    __slots__ = ("_cipher", "_icv")

    def __init__(self, cipher: PlainCipher, icv: Callable[[bytes], bytes] | None) -> None:
        self._cipher = cipher
        self._icv = icv  # None: there is nothing to check

    def decrypt(self, message: bytes, start: int, behind_iv: int, end: int) -> bytes | None:
        if self._icv is not None and self._icv(message[:end]) != message[end:]:
            return None
        return self._cipher.decrypt(message[start:behind_iv], message[behind_iv:end])

    def encrypt(self, associated: bytes, iv: bytes, padded: bytes) -> bytes:
        body = iv + self._cipher.encrypt(iv, padded)
        return body if self._icv is None else body + self._icv(associated + body)


class Decryptor:
    """One key set made ready. It may serve any number of messages."""

    __slots__ = ("_algorithm", "_icv_size", "_initiator", "_responder", "verifies")

    verifies: bool  # whether it can tell that it fits

    def __init__(self, keys: MessageKeys, suite: IkeSuite | None = None) -> None:
        """`suite`: what the IKE SA negotiated, for what the key set does not say itself.

        Raises `UnusableKeyError`: unknown algorithms, keys of another length than theirs, no salt.
        """
        if keys.no_salt:
            raise UnusableKeyError("the salt that an AEAD cipher needs is not in the file")
        self._algorithm = _encryption(keys, suite)
        self._icv_size, mac = self._algorithm.icv, None
        if not self._algorithm.aead:
            self._icv_size, mac = _integrity(keys, suite)
        self.verifies = self._algorithm.aead or mac is not None
        # some sources have the keys of one direction alone; NULL has no encryption keys at all
        sides = (keys.sk_ei, keys.sk_ai), (keys.sk_er, keys.sk_ar)
        keyless = 0 in self._algorithm.key_sizes
        alone = any(any(side) for side in sides)
        self._initiator, self._responder = (
            self._direction(*side, mac) if side[0] or (keyless and (any(side) or not alone)) else None for side in sides
        )

    def _direction(self, sk_e: bytes, sk_a: bytes, mac: IntegrityAlgorithm | None) -> _DirectionCipher:
        if self._algorithm.aead:
            return _AeadDirection(make_aead_cipher(self._algorithm, sk_e))
        if mac is not None and len(sk_a) != mac.key:
            raise UnusableKeyError(f"SK_a has {len(sk_a)} bytes, {mac.name} takes {mac.key}")
        return _EncryptThenMac(make_cipher(self._algorithm, sk_e), make_icv(mac, sk_a) if mac else None)

    def decrypt(self, message: bytes, from_initiator: bool) -> DecryptedMessage | None:
        """What is inside a whole IKE message; None if these are not its keys or there is nothing to open.

        `from_initiator`: sent by the original initiator of the IKE SA. Never raises.
        """
        sealed = find_encrypted_payload(message)
        return None if sealed is None else self.decrypt_payload(sealed, from_initiator)

    def decrypt_payload(self, sealed: EncryptedPayload, from_initiator: bool) -> DecryptedMessage | None:
        """`open`, for who has found the encrypted payload already."""
        message, start = sealed.message, sealed.start
        behind_iv = start + self._algorithm.iv
        end = len(message) - self._icv_size
        size = end - behind_iv
        if size < 1 or size % self._algorithm.block:
            return None
        direction = self._initiator if from_initiator else self._responder
        if direction is None:
            return None
        padded = direction.decrypt(message, start, behind_iv, end)
        if padded is None:
            return None
        pad_length = padded[-1]
        if pad_length >= size:
            return None
        opened = DecryptedMessage(padded[: size - 1 - pad_length], sealed.first, self.verifies)
        if self.verifies or self._plausible(opened, sealed.fragment, pad_length):
            return opened
        return None

    def _plausible(self, opened: DecryptedMessage, fragment: tuple[int, int] | None, pad_length: int) -> bool:
        """Whether the plaintext could be one, where no ICV tells."""
        if fragment is None:
            return is_plausible_chain(opened.plaintext, opened.first)
        # A part of a chain tells little. All of it is looked at when the fragments are together.
        number, total = fragment
        return (
            pad_length < max(self._algorithm.block, _LARGEST_PADDED_TO)
            and len(opened.plaintext) > 0
            and (number > 1 or is_plausible_chain(opened.plaintext, opened.first, cut=total > 1))
        )

    def _seal(self, before: bytes, from_initiator: bool, plaintext: bytes, iv: bytes) -> bytes:
        """IV, ciphertext and ICV; `before`: the message up to there. Its lengths are those that `_sizes` gives."""
        pad_length = -(len(plaintext) + 1) % self._algorithm.block
        padded = plaintext + bytes(pad_length) + bytes([pad_length])
        direction = self._initiator if from_initiator else self._responder
        if direction is None:
            raise UnusableKeyError("there are no keys for this direction")
        return direction.encrypt(before, iv, padded)

    def _body_size(self, plaintext: bytes) -> int:
        """Bytes of IV, ciphertext and ICV."""
        padded = len(plaintext) + 1
        return self._algorithm.iv + padded + -padded % self._algorithm.block + self._icv_size


def encrypt_message(
    opener: Decryptor,
    header: Header,
    first: int,
    plaintext: bytes,
    iv: bytes,
    *,
    fragment: tuple[int, int] | None = None,
    clear: Sequence[tuple[int, bytes]] = (),
) -> bytes:
    """An encrypted message, padded no more than its cipher needs.

    `header`: its next payload and length are set to what the message has; its initiator bit chooses the keys.
    `first`, `plaintext`: the chain of payloads inside, and the type of the first. `fragment`: fragment number and
    total, for a message with SKF. `clear`: type and body of payloads before the encrypted one.

    Raises `UnusableKeyError` for keys that cannot make an ICV too, `ValueError` for an IV of a wrong length.
    """
    if not opener.verifies:
        raise UnusableKeyError("without an integrity algorithm there is no ICV to be made")
    if len(iv) != opener._algorithm.iv:
        raise ValueError(f"{opener._algorithm.name} takes IVs of {opener._algorithm.iv} bytes, not {len(iv)}")
    kind = PayloadType.SK if fragment is None else PayloadType.SKF
    numbers = b"" if fragment is None else _FRAGMENT.pack(*fragment)
    kinds = [*(kind for kind, _ in clear), kind]
    chain = b"".join(
        PAYLOAD_HEADER.pack(following, 0, PAYLOAD_HEADER.size + len(body)) + body
        for (_, body), following in zip(clear, kinds[1:], strict=True)
    )
    size = PAYLOAD_HEADER.size + len(numbers) + opener._body_size(plaintext)
    before = (
        HEADER.pack(
            header.spi_i,
            header.spi_r,
            kinds[0],
            header.version,
            header.exchange_type,
            header.flags,
            header.message_id,
            HEADER.size + len(chain) + size,
        )
        + chain
        + PAYLOAD_HEADER.pack(first, 0, size)
        + numbers
    )
    return before + opener._seal(before, header.initiator, plaintext, iv)


def get_fragment_capacity(opener: Decryptor, largest: int) -> int:
    """Bytes of inner payloads that fit into a fragment whose message has at most `largest` bytes; may be negative."""
    algorithm = opener._algorithm
    around = HEADER.size + PAYLOAD_HEADER.size + _FRAGMENT.size + algorithm.iv + opener._icv_size
    padded = largest - around
    return padded - padded % algorithm.block - 1  # the pad length takes one


def is_plausible_chain(plaintext: bytes, first: int, cut: bool = False) -> bool:
    """Whether decrypted bytes are a chain of known payloads from their beginning to their end. Never raises.

    `cut`: the chain goes on elsewhere, and may end in the middle of a payload.
    """
    cursor, kind = Cursor(plaintext), first
    try:
        while kind != _NONE:
            if kind not in _PAYLOAD_TYPES:
                return False
            kind, flags, size = cursor.unpack(PAYLOAD_HEADER)
            if flags & _RESERVED or size < PAYLOAD_HEADER.size:
                return False
            cursor.skip(size - PAYLOAD_HEADER.size)
    except WireError:
        return cut
    return not cursor.remaining()


def _encryption(keys: MessageKeys, suite: IkeSuite | None) -> EncryptionAlgorithm:
    """The key set's own algorithm, else the negotiated one, if the keys have its length."""
    number, key_bits = keys.encryption, None
    if number is None:
        if suite is None:
            raise UnusableKeyError("neither the file nor the capture says which cipher the keys are for")
        number, key_bits = suite.encryption, suite.key_bits
    algorithm = ENCRYPTION.get(number)
    if algorithm is None:
        raise UnusableKeyError(f"encryption algorithm {get_name(Encryption, number)} cannot be decrypted")
    if key_bits is None:
        sizes = [size + algorithm.salt for size in algorithm.key_sizes]
    else:
        wanted = algorithm.get_key_bytes(key_bits)
        if wanted is None:
            raise UnusableKeyError(f"{algorithm.name} has no keys of {key_bits} bits")
        sizes = [wanted]
    size = len(keys.sk_ei) or len(keys.sk_er)
    if keys.sk_ei and keys.sk_er and len(keys.sk_er) != size:
        raise UnusableKeyError(f"SK_ei has {size} bytes, SK_er {len(keys.sk_er)}")
    if size not in sizes:
        salt = ", the salt included" if algorithm.salt else ""
        raise UnusableKeyError(f"SK_e has {size} bytes, {algorithm.name} takes {' or '.join(map(str, sizes))}{salt}")
    return algorithm


def _integrity(keys: MessageKeys, suite: IkeSuite | None) -> tuple[int, IntegrityAlgorithm | None]:
    """Bytes of the ICV, and what checks it; None: nothing does."""
    if keys.unchecked_icv is not None:
        return keys.unchecked_icv, None
    number = keys.integrity
    if number is None:
        if suite is None:
            raise UnusableKeyError("neither the file nor the capture says which integrity algorithm the keys are for")
        number = suite.integrity
    if number == Integrity.NONE:
        return 0, None
    mac = INTEGRITY.get(number)
    if mac is None:
        raise UnusableKeyError(f"integrity algorithm {get_name(Integrity, number)} cannot be checked")
    return mac.icv, mac
