"""Decrypt and encrypt IKEv2 messages.

The encrypted payload is SK (RFC 7296, section 3.14) or SKF (RFC 7383, section 2.5), always the last payload of its
message. The payloads before it are in the clear and authenticated with it. A message is decrypted only if its ICV is
valid: a wrong key gives nothing. Where the key set has no means to check the ICV, the plaintext must be a plausible
chain of payloads, and the result is marked as unverified.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import msgspec
from msgspec.structs import astuple, replace

from ikeanalyze.crypto.algorithms import (
    ENCRYPTION,
    INTEGRITY,
    EncryptionAlgorithm,
    IkeSuite,
    IntegrityAlgorithm,
    format_key_sizes,
)
from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.header import FLAG_RESPONSE, HEADER, Header
from ikeanalyze.wire.ikev2.encode import encode_chain
from ikeanalyze.wire.payload_chain import ENCRYPTED_TYPES, PAYLOAD_HEADER
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2 import PayloadType
from ikeanalyze.wire.registries.ikev2_transforms import Encryption, Integrity

if TYPE_CHECKING:
    from ikeanalyze.crypto.ciphers import AeadCipher, PlainCipher

#: Bound once: looking up the member of an enum takes a fifth of the time of these loops.
_NONE: Final = PayloadType.NONE
_SKF: Final = PayloadType.SKF
#: Fragment number, total fragments.
_FRAGMENT_NUMBERS: Final = Struct(">HH")
_RESERVED_FLAGS: Final = 0x7F  # all flags of a payload but the critical bit
_PAYLOAD_TYPES: Final = frozenset(PayloadType)
#: Multiple to which implementations pad without need, in bytes.
_MAX_PADDING_MULTIPLE: Final = 4
#: The pad length is one byte.
_MAX_PADDING: Final = 255
#: Combinations of algorithms and key sizes that are remembered.
_MAX_CACHED_PROTECTIONS: Final = 256


class UnusableKeyError(ValueError):
    """A key set cannot be used; one clause without secrets."""


@dataclass(frozen=True, slots=True)
class DecryptedMessage:
    """The content of an SK or SKF payload, or of all fragments of a message."""

    plaintext: bytes = field(repr=False)  # chain of payloads without padding; for an SKF payload, its part of the chain
    first: int  # type of the first payload; 0: no payload, or not the first fragment
    verified: bool  # the ICV is valid; False: the key set has no means to check it


class WithSecrets(msgspec.Struct, frozen=True):
    """Base of classes with secrets: what represents an object in messages has only the fields that `SHOWN` names."""

    SHOWN: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({values})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """What rich shows, for which msgspec has a method that would show all fields."""
        return [(name, getattr(self, name)) for name in self.SHOWN]


class MessageKeys(WithSecrets, frozen=True, kw_only=True):
    """The keys that protect the messages of one epoch, and their algorithms."""

    SHOWN: ClassVar[tuple[str, ...]] = ("encryption", "integrity", "unchecked_icv", "no_salt")
    encryption: int | None  # transform ID (type 1); None: unknown
    integrity: int | None  # transform ID (type 3), 0 with an AEAD cipher; None: unknown
    sk_ei: bytes  # with the salt at the end where the cipher has one
    sk_er: bytes
    sk_ai: bytes = b""
    sk_ar: bytes = b""
    unchecked_icv: int | None = None  # bytes of an ICV that is not checked: "ANY n-bits [No Checking]"
    no_salt: bool = False  # the source lacks the cipher's salt, so nothing can be decrypted


class EncryptedPayload(NamedTuple):
    """The position of the encrypted payload in a message.

    A named tuple: one is created for each message of a capture, and a dataclass takes three times as long.
    """

    message: bytes  # from the header to the end of the encrypted payload
    start: int  # offset of the IV: after the payload's header and, in SKF, the fragment numbers
    first: int  # type of the first payload inside
    fragment: tuple[int, int] | None  # fragment number and total fragments; None: the payload is SK
    message_id: int
    response: bool


def find_encrypted_payload(message: bytes) -> EncryptedPayload | None:
    """Find the encrypted payload of a complete IKEv2 message; None if it has none or is incomplete. Never raises.

    Bytes after the message's length are ignored.
    """
    # without a cursor: this runs once for each message of a capture
    if len(message) < HEADER.size:
        return None
    _, _, kind, version, _, flags, message_id, length = HEADER.unpack_from(message)
    if version >> 4 != 2 or length > len(message):
        return None
    if length < len(message):
        message = message[:length]
    start = HEADER.size
    while kind not in ENCRYPTED_TYPES:
        if kind == _NONE or start + PAYLOAD_HEADER.size > length:
            return None
        kind, _, size = PAYLOAD_HEADER.unpack_from(message, start)
        if size < PAYLOAD_HEADER.size:
            return None
        start += size
    if start + PAYLOAD_HEADER.size > length:
        return None
    first, _, size = PAYLOAD_HEADER.unpack_from(message, start)
    if start + size != length:
        return None
    start += PAYLOAD_HEADER.size
    fragment = None
    if kind == _SKF:
        if start + _FRAGMENT_NUMBERS.size > length:
            return None
        number, total = fragment = _FRAGMENT_NUMBERS.unpack_from(message, start)
        if not 1 <= number <= total:
            return None
        start += _FRAGMENT_NUMBERS.size
    return EncryptedPayload(message, start, first, fragment, message_id, bool(flags & FLAG_RESPONSE))


class _AeadDirection:
    """The AEAD cipher of one sender; the message before the IV is the associated data (RFC 5282, section 5)."""

    __slots__ = ("_cipher",)

    def __init__(self, cipher: "AeadCipher") -> None:
        self._cipher = cipher

    def decrypt(self, message: bytes, start: int, iv_end: int, end: int) -> bytes | None:  # noqa: ARG002
        """Return the padded plaintext, None if the ICV is invalid. The offsets are those of IV, ciphertext and ICV."""
        return self._cipher.decrypt(message[start:iv_end], message[iv_end:], message[:start])

    def encrypt(self, associated: bytes, iv: bytes, padded: bytes) -> bytes:
        """Return IV, ciphertext and ICV; `associated`: the message before the IV."""
        return iv + self._cipher.encrypt(iv, padded, associated)


class _EncryptThenMac:
    """The cipher and MAC of one sender; the ICV covers the message up to it (RFC 7296, section 3.14)."""

    __slots__ = ("_cipher", "_icv")

    def __init__(self, cipher: "PlainCipher", icv: Callable[[bytes], bytes] | None) -> None:
        self._cipher = cipher
        self._icv = icv  # None: the ICV cannot be checked

    def decrypt(self, message: bytes, start: int, iv_end: int, end: int) -> bytes | None:
        """See `_AeadDirection`."""
        if self._icv is not None and not self.has_valid_icv(message, end):
            return None
        return self._cipher.decrypt(message[start:iv_end], message[iv_end:end])

    def has_valid_icv(self, message: bytes, end: int) -> bool:
        """Whether the ICV, which begins at `end`, is valid; False if it cannot be checked."""
        return self._icv is not None and self._icv(message[:end]) == message[end:]

    def encrypt(self, associated: bytes, iv: bytes, padded: bytes) -> bytes:
        """See `_AeadDirection`."""
        body = iv + self._cipher.encrypt(iv, padded)
        return body if self._icv is None else body + self._icv(associated + body)


class MessageProtection(msgspec.Struct, frozen=True):
    """The algorithms and sizes with which a key set protects messages."""

    encryption: EncryptionAlgorithm
    icv: int  # bytes of the ICV
    mac: IntegrityAlgorithm | None  # None: an AEAD cipher, or the ICV cannot be checked
    initiator: bool  # whether there are keys for messages of the original initiator
    responder: bool

    @property
    def verifies(self) -> bool:
        """Whether ICVs are checked."""
        return self.encryption.aead or self.mac is not None


def select_protection(keys: MessageKeys, suite: IkeSuite | None = None) -> MessageProtection:
    """Select the algorithms of a key set; `suite`: the negotiated ones, used where the key set does not name its own.

    Raises:
        UnusableKeyError: the algorithms are unknown, a key has the wrong length, or the salt is missing.
    """
    sizes = len(keys.sk_ei), len(keys.sk_er), len(keys.sk_ai), len(keys.sk_ar)
    return _select_protection(keys.encryption, keys.integrity, keys.unchecked_icv, keys.no_salt, sizes, suite)


# The key sets of a file mostly have the same algorithms and sizes.
@lru_cache(maxsize=_MAX_CACHED_PROTECTIONS)
def _select_protection(
    encryption: int | None,
    integrity: int | None,
    unchecked_icv: int | None,
    no_salt: bool,
    sizes: tuple[int, int, int, int],
    suite: IkeSuite | None,
) -> MessageProtection:
    """`sizes`: of SK_ei, SK_er, SK_ai, SK_ar in bytes."""
    if no_salt:
        raise UnusableKeyError("the key file lacks the salt that the cipher needs")
    size_ei, size_er, size_ai, size_ar = sizes
    algorithm = _select_encryption(encryption, size_ei, size_er, suite)
    icv, mac = algorithm.icv, None
    if not algorithm.aead:
        icv, mac = _select_integrity(integrity, unchecked_icv, suite)
    # Some sources have the keys of one direction only; NULL has no encryption keys at all.
    keyless, one_sided = 0 in algorithm.key_sizes, any(sizes)
    initiator = size_ei > 0 or (keyless and (size_ai > 0 or not one_sided))
    responder = size_er > 0 or (keyless and (size_ar > 0 or not one_sided))
    for in_use, size in ((initiator, size_ai), (responder, size_ar)):
        if in_use and mac is not None and size != mac.key:
            raise UnusableKeyError(f"SK_a has {size} bytes, {mac.name} takes {mac.key}")
    return MessageProtection(algorithm, icv, mac, initiator, responder)


@cache
def _load_ciphers() -> tuple[
    Callable[[EncryptionAlgorithm, bytes], "AeadCipher"],
    Callable[[EncryptionAlgorithm, bytes], "PlainCipher"],
    Callable[[IntegrityAlgorithm, bytes], Callable[[bytes], bytes]],
]:
    """Load cryptography, which is not needed if the compiled core decrypts all messages."""
    from ikeanalyze.crypto.ciphers import make_aead_cipher, make_cipher
    from ikeanalyze.crypto.macs import make_icv

    return make_aead_cipher, make_cipher, make_icv


class MessageCipher:
    """The ciphers and MACs of one key set: decrypts any number of messages, and encrypts them (`encrypt_message`)."""

    __slots__ = ("_directions", "_keys", "_protection", "algorithm", "icv_size", "verifies")

    algorithm: EncryptionAlgorithm
    icv_size: int  # bytes of the ICV
    verifies: bool  # whether it checks ICVs, so that it recognizes a wrong key

    def __init__(self, keys: MessageKeys, suite: IkeSuite | None = None) -> None:
        """`suite`: as for `select_protection`, which also raises the errors."""
        self._protection = select_protection(keys, suite)
        self._keys = keys
        self.algorithm = self._protection.encryption
        self.icv_size = self._protection.icv
        self.verifies = self._protection.verifies
        #: By whether the initiator is the sender; made for its first message.
        self._directions: dict[bool, _AeadDirection | _EncryptThenMac | None] = {}

    def get_direction(self, from_initiator: bool) -> _AeadDirection | _EncryptThenMac | None:
        """The ciphers for messages of one sender; None: there are no keys for them."""
        if from_initiator not in self._directions:
            self._directions[from_initiator] = self._make_direction(from_initiator)
        return self._directions[from_initiator]

    def _make_direction(self, from_initiator: bool) -> _AeadDirection | _EncryptThenMac | None:
        make_aead_cipher, make_cipher, make_icv = _load_ciphers()
        keys, protection = self._keys, self._protection
        if not (protection.initiator if from_initiator else protection.responder):
            return None
        sk_e, sk_a = (keys.sk_ei, keys.sk_ai) if from_initiator else (keys.sk_er, keys.sk_ar)
        if self.algorithm.aead:
            return _AeadDirection(make_aead_cipher(self.algorithm, sk_e))
        return _EncryptThenMac(
            make_cipher(self.algorithm, sk_e), make_icv(protection.mac, sk_a) if protection.mac else None
        )

    def decrypt(self, message: bytes, from_initiator: bool) -> DecryptedMessage | None:
        """Decrypt a complete IKE message; None if the keys are wrong or it has no encrypted payload. Never raises.

        `from_initiator`: sent by the original initiator of the IKE SA.
        """
        payload = find_encrypted_payload(message)
        return None if payload is None else self.decrypt_payload(payload, from_initiator)

    def decrypt_payload(self, payload: EncryptedPayload, from_initiator: bool) -> DecryptedMessage | None:
        """Decrypt a payload that `find_encrypted_payload` returned; otherwise as `decrypt`."""
        plaintext = self.decrypt_at(payload.message, payload.start, from_initiator)
        if plaintext is None:
            return None
        decrypted = DecryptedMessage(plaintext, payload.first, self.verifies)
        if self.verifies:
            return decrypted
        padded = len(payload.message) - self.icv_size - payload.start - self.algorithm.iv
        plausible = self._is_plausible(decrypted, payload.fragment, padded - 1 - len(plaintext))
        return decrypted if plausible else None

    def decrypt_at(self, message: bytes, start: int, from_initiator: bool) -> bytes | None:
        """Decrypt the encrypted payload at the end of a message, whose IV begins at `start`; otherwise as `decrypt`.

        Returns the plaintext without padding, plausible or not.
        """
        iv_end = start + self.algorithm.iv
        end = len(message) - self.icv_size
        size = end - iv_end
        if size < 1 or size % self.algorithm.block:
            return None
        direction = self.get_direction(from_initiator)
        if direction is None:
            return None
        padded = direction.decrypt(message, start, iv_end, end)
        if padded is None:
            return None
        pad_length = padded[-1]
        if pad_length >= size:
            return None
        return padded[: size - 1 - pad_length]

    def is_garbage(self, plaintext: bytes, first: int, fragment: tuple[int, int] | None) -> bool:
        """Whether a plaintext with a valid ICV looks as if SK_e were wrong; not with an AEAD cipher or NULL.

        `first`: type of the first payload. `fragment`: fragment number and total fragments; None: the payload is SK.
        """
        # The ICV of the others shows that SK_a is right, and nothing about SK_e.
        return self.uses_two_keys and is_garbage(plaintext, first, fragment)

    def has_wrong_encryption_key(self, message: bytes, from_initiator: bool) -> bool:
        """Whether the ICV of a message is valid and its plaintext is not: SK_a is right, SK_e is wrong. Never raises.

        False with an AEAD cipher, whose only key is SK_e.
        """
        payload, direction = find_encrypted_payload(message), self.get_direction(from_initiator)
        if payload is None or not self.uses_two_keys or not isinstance(direction, _EncryptThenMac):
            return False
        if not direction.has_valid_icv(payload.message, len(payload.message) - self.icv_size):
            return False
        decrypted = self.decrypt_payload(payload, from_initiator)
        return decrypted is None or self.is_garbage(decrypted.plaintext, payload.first, payload.fragment)

    @property
    def uses_two_keys(self) -> bool:
        """Whether SK_e and SK_a protect messages, and both are known."""
        return self.verifies and not self.algorithm.aead and self.algorithm.encrypts

    def _is_plausible(self, decrypted: DecryptedMessage, fragment: tuple[int, int] | None, pad_length: int) -> bool:
        """Whether the plaintext may be right, where no ICV is checked."""
        if fragment is None:
            return is_plausible_chain(decrypted.plaintext, decrypted.first)
        # A part of a chain shows little; the complete chain is checked when the fragments are reassembled.
        number, total = fragment
        return (
            pad_length < max(self.algorithm.block, _MAX_PADDING_MULTIPLE)
            and len(decrypted.plaintext) > 0
            and (number > 1 or is_plausible_chain(decrypted.plaintext, decrypted.first, cut=total > 1))
        )


def encrypt_message(
    cipher: MessageCipher,
    header: Header,
    first: int,
    plaintext: bytes,
    iv: bytes,
    *,
    fragment: tuple[int, int] | None = None,
    clear: Sequence[tuple[int, bytes]] = (),
) -> bytes:
    """Return an encrypted message, padded no more than its cipher requires.

    `header`: its next payload and length are replaced; its initiator flag selects the keys. `first`, `plaintext`: type
    of the first inner payload, and the inner chain. `fragment`: fragment number and total fragments, for a message with
    SKF. `clear`: type and body of the payloads before the encrypted one.

    Raises:
        UnusableKeyError: the key set has no integrity algorithm, or no keys of this direction.
        ValueError: the IV has the wrong length.
    """
    algorithm = cipher.algorithm
    if not cipher.verifies:
        raise UnusableKeyError("the keys have no integrity algorithm, so no ICV can be computed")
    if len(iv) != algorithm.iv:
        raise ValueError(f"{algorithm.name} takes IVs of {algorithm.iv} bytes, not {len(iv)}")
    direction = cipher.get_direction(header.initiator)
    if direction is None:
        raise UnusableKeyError("the key set has no keys for this direction")
    pad_length = -(len(plaintext) + 1) % algorithm.block
    padded = plaintext + bytes(pad_length) + bytes([pad_length])
    numbers = b"" if fragment is None else _FRAGMENT_NUMBERS.pack(*fragment)
    outer_first, chain = encode_chain(clear, PayloadType.SK if fragment is None else PayloadType.SKF)
    size = PAYLOAD_HEADER.size + len(numbers) + len(iv) + len(padded) + cipher.icv_size
    header = replace(header, next_payload=outer_first, length=HEADER.size + len(chain) + size)
    associated = HEADER.pack(*astuple(header)) + chain + PAYLOAD_HEADER.pack(first, 0, size) + numbers
    return associated + direction.encrypt(associated, iv, padded)


def replace_plaintext(
    cipher: MessageCipher, message: bytes, from_initiator: bool, associated: bytes, plaintext: bytes, iv: bytes
) -> bytes | None:
    """Return an encrypted message with another plaintext of the same size, which its padding keeps.

    Args:
        cipher: the one that decrypts the message.
        message: complete, with an encrypted payload.
        from_initiator: sent by the original initiator of the IKE SA.
        associated: the new bytes before the IV, as many as in the message.
        plaintext: the new chain of payloads, or the part of it in a fragment.
        iv: the new IV.

    None: the keys cannot compute an ICV, or the sizes do not fit.
    """
    payload, direction = find_encrypted_payload(message), cipher.get_direction(from_initiator)
    if payload is None or direction is None or not cipher.verifies:
        return None
    size = len(payload.message) - cipher.icv_size - payload.start - cipher.algorithm.iv
    pad_length = size - len(plaintext) - 1
    if len(iv) != cipher.algorithm.iv or len(associated) != payload.start or not 0 <= pad_length <= _MAX_PADDING:
        return None
    padded = plaintext + bytes(pad_length) + bytes([pad_length])
    return associated + direction.encrypt(associated, iv, padded)


def get_iv(cipher: MessageCipher, payload: EncryptedPayload) -> bytes:
    """Return the IV of an encrypted payload."""
    return payload.message[payload.start : payload.start + cipher.algorithm.iv]


def get_fragment_capacity(cipher: MessageCipher, max_bytes: int) -> int:
    """Return the bytes of inner payloads that fit into a fragment of at most `max_bytes`; may be negative."""
    algorithm = cipher.algorithm
    overhead = HEADER.size + PAYLOAD_HEADER.size + _FRAGMENT_NUMBERS.size + algorithm.iv + cipher.icv_size
    padded = max_bytes - overhead
    return padded - padded % algorithm.block - 1  # the pad length takes one byte


def is_plausible_chain(plaintext: bytes, first: int, cut: bool = False) -> bool:
    """Whether decrypted bytes are a chain of known payloads from beginning to end. Never raises.

    `cut`: the chain continues in another fragment, and may end in the middle of a payload.
    """
    cursor, payload_type = Cursor(plaintext), first
    try:
        while payload_type != _NONE:
            if payload_type not in _PAYLOAD_TYPES:
                return False
            payload_type, flags, size = cursor.unpack(PAYLOAD_HEADER)
            if flags & _RESERVED_FLAGS or size < PAYLOAD_HEADER.size:
                return False
            cursor.skip(size - PAYLOAD_HEADER.size)
    except WireError:
        return cut
    return not cursor.remaining()


def is_garbage(plaintext: bytes, first: int, fragment: tuple[int, int] | None) -> bool:
    """Whether decrypted bytes do not begin with the header of a payload, as if SK_e were wrong. Never raises.

    A malformed payload may have an unknown next payload, reserved flags, or a wrong length; random bytes have at least
    two of these, but for one message in a hundred at most. Fragments after the first one show nothing.
    """
    number, total = fragment or (1, 1)
    if number > 1:
        return False
    if first == _NONE or not plaintext:
        return False
    if len(plaintext) < PAYLOAD_HEADER.size:
        return True
    following, flags, size = PAYLOAD_HEADER.unpack_from(plaintext)
    most = len(plaintext) if total == 1 else (len(plaintext) + _MAX_PADDING) * total
    is_known, has_size = following in _PAYLOAD_TYPES, PAYLOAD_HEADER.size <= size <= most
    errors: list[bool] = [not is_known, flags & _RESERVED_FLAGS != 0, not has_size]
    return sum(errors) > 1


def _select_encryption(named: int | None, size_ei: int, size_er: int, suite: IkeSuite | None) -> EncryptionAlgorithm:
    """The key set's algorithm, or else the negotiated one, if the keys have its length."""
    transform, key_bits = named, None
    if transform is None:
        if suite is None:
            raise UnusableKeyError("unknown cipher: neither the key file nor the capture specifies it")
        transform, key_bits = suite.encryption, suite.key_bits
    algorithm = ENCRYPTION.get(transform)
    if algorithm is None:
        raise UnusableKeyError(f"encryption algorithm {get_name(Encryption, transform)} is not supported")
    if key_bits is None:
        sizes = [size + algorithm.salt for size in algorithm.key_sizes]
    else:
        negotiated = algorithm.get_key_bytes(key_bits)
        if negotiated is None:
            raise UnusableKeyError(f"{algorithm.name} has no keys of {key_bits} bits")
        sizes = [negotiated]
    size = size_ei or size_er
    if size_ei and size_er and size_er != size:
        raise UnusableKeyError(f"SK_ei has {size} bytes, SK_er {size_er}")
    if size not in sizes:
        salt = ", including the salt" if algorithm.salt else ""
        raise UnusableKeyError(f"SK_e has {size} bytes, {algorithm.name} takes {format_key_sizes(sizes)}{salt}")
    return algorithm


def _select_integrity(
    named: int | None, unchecked_icv: int | None, suite: IkeSuite | None
) -> tuple[int, IntegrityAlgorithm | None]:
    """Bytes of the ICV, and the algorithm that checks it; None: it cannot be checked."""
    if unchecked_icv is not None:
        return unchecked_icv, None
    transform = named
    if transform is None:
        if suite is None:
            raise UnusableKeyError("unknown integrity algorithm: neither the key file nor the capture specifies it")
        transform = suite.integrity
    if transform == Integrity.NONE:
        return 0, None
    mac = INTEGRITY.get(transform)
    if mac is None:
        raise UnusableKeyError(f"integrity algorithm {get_name(Integrity, transform)} is not supported")
    return mac.icv, mac
