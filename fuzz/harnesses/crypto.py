"""Decryption of messages with given keys: hostile ciphertext, plaintext with a valid ICV, key sets, and signatures.

The first byte selects what is attacked, the second the algorithms.
"""

from collections.abc import Callable
from functools import cache
from hashlib import shake_128
from random import Random
from struct import Struct
from typing import Final

from fuzz.harness import Harness
from fuzz.mutators.binary import mutate_bytes
from ikeanalyze.crypto.algorithms import ENCRYPTION, INTEGRITY, EncryptionAlgorithm, IkeSuite, IntegrityAlgorithm
from ikeanalyze.crypto.auth import get_int_auth_octets
from ikeanalyze.crypto.certificate_chain import format_distinguished_name, names_equal
from ikeanalyze.crypto.ciphers import make_aead_cipher, make_cipher
from ikeanalyze.crypto.esp import EspDecryptor
from ikeanalyze.crypto.ikev1 import Phase1Decryptor
from ikeanalyze.crypto.macs import make_icv
from ikeanalyze.crypto.signatures import UnverifiableSignatureError, check_signature
from ikeanalyze.crypto.sk_payload import (
    DecryptedMessage,
    MessageCipher,
    MessageKeys,
    UnusableKeyError,
    find_encrypted_payload,
    is_plausible_chain,
)
from ikeanalyze.crypto.skf_fragments import SkfReassembler
from ikeanalyze.wire.header import HEADER
from ikeanalyze.wire.ikev2.describe import describe_payloads
from ikeanalyze.wire.ikev2.message import parse_decrypted_payloads
from ikeanalyze.wire.ikev2.payloads import Authentication, Certificate
from ikeanalyze.wire.payload_chain import PAYLOAD_HEADER
from ikeanalyze.wire.registries.ikev2 import CertEncoding, PayloadType

_FRAGMENT_NUMBERS: Final = Struct(">HH")
_SPIS: Final = (bytes.fromhex("0123456789abcdef"), bytes.fromhex("fedcba9876543210"))
#: Plaintexts of the messages that are valid: a nonce payload, and an empty chain.
_PLAINTEXTS: Final = ((int(PayloadType.NONCE), b"\0\0\0\x14" + bytes(16)), (0, b""))
_ESP_ALGORITHMS: Final = (
    ("AES-GCM [RFC4106]", 36, "NULL", 0),
    ("AES-CBC [RFC3602]", 16, "HMAC-SHA-256-128 [RFC4868]", 32),
    ("AES-CTR [RFC3686]", 20, "HMAC-SHA-1-96 [RFC2404]", 20),
    ("AES-GCM with IIV and 16 octet ICV [RFC4106 & RFC8750]", 36, "NULL", 0),
    ("NULL", 0, "HMAC-MD5-96 [RFC2403]", 16),
)


def _make_suites() -> list[tuple[EncryptionAlgorithm, IntegrityAlgorithm | None]]:
    """Each cipher, with all integrity algorithms in turn."""
    integrity = list(INTEGRITY.values())
    return [
        (algorithm, None if algorithm.aead else integrity[index % len(integrity)])
        for index, algorithm in enumerate(ENCRYPTION.values())
    ]


SUITES: Final = _make_suites()


def make_key(name: str, size: int) -> bytes:
    """Return a fixed key."""
    return shake_128(name.encode()).digest(size)


@cache
def _make_keys(suite: int) -> MessageKeys:
    encryption, integrity = SUITES[suite]
    size_e = encryption.key_sizes[-1] + encryption.salt
    size_a = integrity.key if integrity is not None else 0
    return MessageKeys(
        encryption=encryption.transform,
        integrity=integrity.transform if integrity is not None else 0,
        sk_ei=make_key("ei", size_e),
        sk_er=make_key("er", size_e),
        sk_ai=make_key("ai", size_a),
        sk_ar=make_key("ar", size_a),
    )


def seal(suite: int, first: int, fragment: tuple[int, int] | None, padded: bytes) -> bytes:
    """Return an encrypted message of the initiator with a valid ICV; `padded`: plaintext, padding and pad length.

    Written apart from `sk_payload.encrypt_message`, which cannot make invalid padding.
    """
    encryption, integrity = SUITES[suite]
    keys = _make_keys(suite)
    iv = make_key("iv", encryption.iv)
    numbers = b"" if fragment is None else _FRAGMENT_NUMBERS.pack(*fragment)
    icv_bytes = encryption.icv if integrity is None else integrity.icv
    size = PAYLOAD_HEADER.size + len(numbers) + len(iv) + len(padded) + icv_bytes
    kind = PayloadType.SK if fragment is None else PayloadType.SKF
    head = HEADER.pack(*_SPIS, kind, 0x20, 35, 0x08, 1, HEADER.size + size)
    head += PAYLOAD_HEADER.pack(first, 0, size) + numbers
    if integrity is None:
        return head + iv + make_aead_cipher(encryption, keys.sk_ei).encrypt(iv, padded, head)
    message = head + iv + make_cipher(encryption, keys.sk_ei).encrypt(iv, padded)
    return message + make_icv(integrity, keys.sk_ai)(message)


@cache
def make_valid_messages(suite: int) -> tuple[bytes, ...]:
    """Return messages that decrypt: only their exact bytes may."""
    block = SUITES[suite][0].block
    messages = []
    for first, plaintext in _PLAINTEXTS:
        padding = -(len(plaintext) + 1) % block
        padded = plaintext + bytes(padding) + bytes([padding])
        messages += [seal(suite, first, fragment, padded) for fragment in (None, (1, 2))]
    return tuple(messages)


def _run_ciphertext(suite: int, data: bytes) -> None:
    """Only a message with the right ICV passes the check."""
    decryptor = MessageCipher(_make_keys(suite))
    payload = find_encrypted_payload(data)
    for from_initiator in (True, False):
        decrypted = decryptor.decrypt(data, from_initiator)
        if decrypted is not None:
            assert payload is not None
            assert decrypted.verified
            assert _is_authentic(suite, payload.message), "a forged message was decrypted"
            _use(decrypted)
    _run_without_icv(suite, data)


def _is_authentic(suite: int, message: bytes) -> bool:
    """Whether the initiator's keys protect a message.

    libFuzzer sees the operands of comparisons, so it can learn the ICV of a message that it made up.
    """
    integrity = SUITES[suite][1]
    if integrity is None:
        return message in make_valid_messages(suite)
    return message.endswith(make_icv(integrity, _make_keys(suite).sk_ai)(message[: -integrity.icv]))


def _run_without_icv(suite: int, data: bytes) -> None:
    """With a key set that cannot check ICVs, the plaintext is a chain of payloads."""
    encryption, integrity = SUITES[suite]
    if integrity is None:
        return
    keys = _make_keys(suite)
    unchecked = MessageKeys(
        encryption=encryption.transform,
        integrity=None,
        sk_ei=keys.sk_ei,
        sk_er=keys.sk_er,
        unchecked_icv=integrity.icv,
    )
    payload = find_encrypted_payload(data)
    decrypted = MessageCipher(unchecked).decrypt(data, from_initiator=True)
    if decrypted is not None:
        assert payload is not None
        assert not decrypted.verified
        assert payload.fragment is not None or is_plausible_chain(decrypted.plaintext, decrypted.first)
        _use(decrypted)


def _run_plaintext(suite: int, data: bytes) -> None:
    """Any plaintext and padding behind a valid ICV: `data` are type, fragment numbers and padded plaintext."""
    if len(data) < 6:
        return
    first = data[0]
    number, total = _FRAGMENT_NUMBERS.unpack_from(data, 1)
    fragment = (number, total) if 1 <= number <= total else None
    block = SUITES[suite][0].block
    padded = data[5:]
    padded = padded[: len(padded) - len(padded) % block]
    if not padded:
        return
    message = seal(suite, first, fragment, padded)
    decrypted = MessageCipher(_make_keys(suite)).decrypt(message + data[:3], from_initiator=True)
    if padded[-1] >= len(padded):
        assert decrypted is None, "padding that is longer than the plaintext"
        return
    assert decrypted is not None, "a valid message was not decrypted"
    assert decrypted.verified
    assert (decrypted.first, decrypted.plaintext) == (first, padded[: len(padded) - 1 - padded[-1]])
    _use(decrypted)
    if fragment is None or number == 1:
        assert get_int_auth_octets(message, decrypted).endswith(decrypted.plaintext)


def _use(decrypted: DecryptedMessage) -> None:
    for text in describe_payloads(parse_decrypted_payloads(decrypted.plaintext, decrypted.first)):
        assert text.isprintable()


def _run_fragments(_suite: int, data: bytes) -> None:
    """Fragments with any numbers, in any order: what is reassembled is what was added."""
    reassembler = SkfReassembler()
    parts: dict[int, bytes] = {}
    total = 0
    for place in range(0, len(data) - 5, 6):
        number, count = _FRAGMENT_NUMBERS.unpack_from(data, place)
        part = bytes([data[place + 4]]) * (data[place + 5] % 4)
        if not reassembler.add(number, count, data[place + 4], part):
            continue
        if count > total:
            parts.clear()
            total = count
        parts[number] = part
        missing = sum(map(len, reassembler.get_missing_ranges()))
        assert missing == total - len(parts)
        message = reassembler.get_message()
        assert (message is not None) == (missing == 0)
        if message is not None:
            assert message.plaintext == b"".join(parts[number] for number in range(1, total + 1))


def _run_esp(suite: int, data: bytes) -> None:
    """An ESP packet that was not made with the keys is refused."""
    encryption, size_e, integrity, size_a = _ESP_ALGORITHMS[suite % len(_ESP_ALGORITHMS)]
    decryptor = EspDecryptor(encryption, make_key("ei", size_e), integrity, make_key("ai", size_a))
    for near in (None, 0, 2**32 - 1):
        assert decryptor.decrypt(data, near) is None, "a forged ESP packet was decrypted"


def _run_phase1(suite: int, data: bytes) -> None:
    """Messages of IKEv1, each after its length in 2 bytes."""
    encryption, size = ((7, 16), (5, 24), (1, 8), (8, 32))[suite % 4]
    decryptor = Phase1Decryptor(make_key("phase 1", size), encryption, 1 + suite % 2, data[:8], data[8:16])
    while len(data) > 2:
        length = int.from_bytes(data[:2])
        decrypted = decryptor.decrypt(data[2 : 2 + length])
        if decrypted is not None:
            assert not decrypted.verified
            _use(decrypted)
        data = data[2 + length :]


def _run_keys(suite: int, data: bytes) -> None:
    """A key set with any lengths and numbers decrypts nothing or is refused with one documented error."""
    if len(data) < 8:
        return
    sizes = [byte % 70 for byte in data[:4]]
    numbers = [None if byte == 255 else byte for byte in data[4:8]]
    try:
        keys = MessageKeys(
            encryption=numbers[0],
            integrity=numbers[1],
            sk_ei=make_key("ei", sizes[0]),
            sk_er=make_key("er", sizes[1]),
            sk_ai=make_key("ai", sizes[2]),
            sk_ar=make_key("ar", sizes[3]),
            unchecked_icv=numbers[2],
        )
        decryptor = MessageCipher(keys, IkeSuite(numbers[3], suite * 8, 0) if numbers[3] is not None else None)
    except UnusableKeyError:
        return
    for from_initiator in (True, False):
        decryptor.decrypt(data[8:], from_initiator)


def _run_signature(suite: int, data: bytes) -> None:
    """AUTH data and a certificate of the peer: the result is a reason, not an exception."""
    size = int.from_bytes(data[:2])
    authentication = Authentication((1, 9, 10, 11, 14)[suite % 5], data[2 : 2 + size])
    certificate = data[2 + size :]
    for encoding in (CertEncoding.X509_SIGNATURE, CertEncoding.RAW_PUBLIC_KEY):
        try:
            reason = check_signature(authentication, Certificate(encoding, certificate), b"octets")
        except UnverifiableSignatureError as error:
            reason = str(error)
        assert reason, "a forged signature is valid"
        assert reason.isprintable(), repr(reason)
    name = format_distinguished_name(certificate)
    assert name is None or name.isprintable()
    names_equal(certificate, data[2 : 2 + size])


#: What is attacked, by the first byte of an input. Reproducers depend on the order: add to the end.
TARGETS: Final[tuple[Callable[[int, bytes], None], ...]] = (
    _run_ciphertext,
    _run_plaintext,
    _run_fragments,
    _run_esp,
    _run_phase1,
    _run_keys,
    _run_signature,
)


def run(data: bytes) -> None:
    """Attack what the first byte selects, with the algorithms that the second selects."""
    if len(data) >= 2:
        TARGETS[data[0] % len(TARGETS)](data[1] % len(SUITES), data[2:])


def mutate(data: bytes, rng: Random) -> bytes:
    """Change the bytes after the first two, and rarely the target or the algorithms."""
    head = bytearray(data[:2].ljust(2, b"\0"))
    if rng.random() < 0.05:
        head[rng.randrange(2)] = rng.randrange(max(len(TARGETS), len(SUITES)))
    return bytes(head) + mutate_bytes(data[2:], rng)


HARNESS: Final = Harness(run, mutate, max_bytes=4096, share=0.5)
