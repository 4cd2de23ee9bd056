"""Encrypted messages and their key files, made with the library `cryptography` and none of the tested code.

RFC 7296, 3.14 (SK), RFC 7383, 2.5 (SKF), RFC 5282 (AES-GCM, AES-CCM), RFC 5529 (Camellia), RFC 5930 (AES-CTR),
RFC 7634 (ChaCha20-Poly1305), RFC 3566 (AES-XCBC), RFC 3610 (CCM).
"""

import hmac
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from cryptography.hazmat.decrepit.ciphers.algorithms import Camellia, TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.cmac import CMAC

from tests.craft import MS, Handshake, Trace, ike

AUTH = [ike.identification(ike.ID_I, b"one"), ike.auth(2, bytes(32)), ike.notify(16384)]
AUTH_RESPONSE = [ike.identification(ike.ID_R, b"other"), ike.auth(2, bytes(range(32)))]


def _run(algorithm, mode, data):
    encryptor = Cipher(algorithm, mode).encryptor()
    return encryptor.update(data) + encryptor.finalize()


def _xor(left, right):
    return bytes(a ^ b for a, b in zip(left, right, strict=False))


def _gcm(icv):
    def encrypt(key, iv, plaintext, associated):
        ciphertext = AESGCM(key[:-4]).encrypt(key[-4:] + iv, plaintext, associated)
        return ciphertext[: len(plaintext) + icv]  # a shorter tag is the beginning of the longer one

    return encrypt


def _ccm(icv):
    return lambda key, iv, plaintext, associated: AESCCM(key[:-3], tag_length=icv).encrypt(
        key[-3:] + iv, plaintext, associated
    )


def _camellia_ccm(icv):
    """RFC 3610, because the library has no CCM for Camellia."""

    def encrypt(key, iv, plaintext, associated):
        cipher, nonce = Camellia(key[:-3]), key[-3:] + iv
        blocks = bytes([64 + (icv - 2) // 2 * 8 + 3]) + nonce + struct.pack(">I", len(plaintext))
        for part in (struct.pack(">H", len(associated)) + associated, plaintext):
            blocks += part + bytes(-len(part) % 16)
        tag = _run(cipher, modes.CBC(bytes(16)), blocks)[-16:]
        counters = b"".join(b"\3" + nonce + struct.pack(">I", n) for n in range(len(plaintext) // 16 + 2))
        stream = _run(cipher, modes.ECB(), counters)
        return _xor(plaintext, stream[16:]) + _xor(tag[:icv], stream)

    return encrypt


def _chacha(key, iv, plaintext, associated):
    return ChaCha20Poly1305(key[:-4]).encrypt(key[-4:] + iv, plaintext, associated)


def _cbc(algorithm):
    return lambda key, iv, plaintext, _: _run(algorithm(key), modes.CBC(iv), plaintext)


def _ctr(algorithm):
    def encrypt(key, iv, plaintext, _):
        counters = b"".join(key[-4:] + iv + struct.pack(">I", n) for n in range(1, len(plaintext) // 16 + 2))
        return _xor(plaintext, _run(algorithm(key[:-4]), modes.ECB(), counters))

    return encrypt


def _null(key, iv, plaintext, associated):
    return plaintext


def _hmac(name):
    return lambda key, data: hmac.digest(key, data, name)


def _cmac(key, data):
    code = CMAC(algorithms.AES(key))
    code.update(data)
    return code.finalize()


def _xcbc(key, data):
    """RFC 3566, section 4."""
    k1, k2, k3 = (_run(algorithms.AES(key), modes.ECB(), bytes([number]) * 16) for number in (1, 2, 3))
    whole = data and len(data) % 16 == 0
    if not whole:
        data += b"\x80" + bytes(15 - len(data) % 16)
    blocks = data[:-16] + _xor(data[-16:], k2 if whole else k3)
    return _run(algorithms.AES(k1), modes.CBC(bytes(16)), blocks)[-16:]


@dataclass(frozen=True)
class Encryption:
    """A transform of type 1: bytes of the key without salt, of the salt, IV, block and tag (0: not AEAD)."""

    number: int
    sizes: tuple[int, ...]
    salt: int
    iv: int
    block: int
    icv: int
    encrypt: Callable[[bytes, bytes, bytes, bytes], bytes]


AES_SIZES = (16, 24, 32)
#: By name in key files: all that `ikeanalyze` knows, except CAST and BLOWFISH, which the plugin lacks.
CIPHERS = {
    "DES": Encryption(2, (8,), 0, 8, 8, 0, _cbc(lambda key: TripleDES(key * 3))),
    "3DES": Encryption(3, (24,), 0, 8, 8, 0, _cbc(TripleDES)),
    "NULL": Encryption(11, (0,), 0, 0, 1, 0, _null),
    "AES-CBC": Encryption(12, AES_SIZES, 0, 16, 16, 0, _cbc(algorithms.AES)),
    "AES-CTR": Encryption(13, AES_SIZES, 4, 8, 1, 0, _ctr(algorithms.AES)),
    "AES-CCM-8": Encryption(14, AES_SIZES, 3, 8, 1, 8, _ccm(8)),
    "AES-CCM-12": Encryption(15, AES_SIZES, 3, 8, 1, 12, _ccm(12)),
    "AES-CCM-16": Encryption(16, AES_SIZES, 3, 8, 1, 16, _ccm(16)),
    "AES-GCM-8": Encryption(18, AES_SIZES, 4, 8, 1, 8, _gcm(8)),
    "AES-GCM-12": Encryption(19, AES_SIZES, 4, 8, 1, 12, _gcm(12)),
    "AES-GCM-16": Encryption(20, AES_SIZES, 4, 8, 1, 16, _gcm(16)),
    "CAMELLIA-CBC": Encryption(23, AES_SIZES, 0, 16, 16, 0, _cbc(Camellia)),
    "CAMELLIA-CTR": Encryption(24, AES_SIZES, 4, 8, 1, 0, _ctr(Camellia)),
    "CAMELLIA-CCM-8": Encryption(25, AES_SIZES, 3, 8, 1, 8, _camellia_ccm(8)),
    "CAMELLIA-CCM-12": Encryption(26, AES_SIZES, 3, 8, 1, 12, _camellia_ccm(12)),
    "CAMELLIA-CCM-16": Encryption(27, AES_SIZES, 3, 8, 1, 16, _camellia_ccm(16)),
    "CHACHA20-POLY1305": Encryption(28, (32,), 4, 8, 1, 16, _chacha),
}


@dataclass(frozen=True)
class Integrity:
    """A transform of type 3: bytes of the key, and of the truncated code."""

    number: int
    key: int
    icv: int
    compute: Callable[[bytes, bytes], bytes]


#: By name in key files: all that `ikeanalyze` knows.
CODES = {
    "HMAC-MD5-96": Integrity(1, 16, 12, _hmac("md5")),
    "HMAC-SHA1-96": Integrity(2, 20, 12, _hmac("sha1")),
    "AES-XCBC-96": Integrity(5, 16, 12, _xcbc),
    "HMAC-MD5-128": Integrity(6, 16, 16, _hmac("md5")),
    "HMAC-SHA1-160": Integrity(7, 20, 20, _hmac("sha1")),
    "AES-CMAC-96": Integrity(8, 16, 12, _cmac),
    "HMAC-SHA2-256-128": Integrity(12, 32, 16, _hmac("sha256")),
    "HMAC-SHA2-384-192": Integrity(13, 48, 24, _hmac("sha384")),
    "HMAC-SHA2-512-256": Integrity(14, 64, 32, _hmac("sha512")),
    "HMAC-SHA2-256-96": Integrity(1027, 32, 12, _hmac("sha256")),
}


@dataclass
class EncryptedSa:
    """An IKE SA with encrypted messages, and the key sets of its epochs."""

    rng: Random
    cipher: str = "AES-GCM-16"
    handshake: Handshake | None = None
    integrity: str = "HMAC-SHA2-256-128"  # of a cipher that is not AEAD
    key_size: int | None = None  # bytes, without the salt; None: the largest
    sets: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self):
        if self.handshake is None:
            self.handshake = Handshake(self.rng, switch=False)
        self.encryption, self.aead = CIPHERS[self.cipher], CIPHERS[self.cipher].icv > 0
        self.code = None if self.aead else CODES[self.integrity]
        if self.key_size is None:
            self.key_size = self.encryption.sizes[-1]

    def proposal(self, *more):
        """The proposal that IKE_SA_INIT negotiates."""
        bits = 8 * self.key_size if len(self.encryption.sizes) > 1 else None
        transforms = [ike.Transform(ike.ENCR, self.encryption.number, bits)]
        if self.code:
            transforms.append(ike.Transform(ike.INTEG, self.code.number))
        return ike.Proposal([*transforms, ike.Transform(ike.PRF, 5), ike.Transform(ike.DH, ike.CURVE25519), *more])

    def next_epoch(self):
        """Choose new keys."""
        sizes = {"e": self.key_size + self.encryption.salt, "a": self.code.key if self.code else 0}
        keys = {f"sk_{kind}{side}": self.rng.randbytes(sizes[kind]) for kind in "ea" for side in "ir"}
        self.keys = keys
        self.sets.append(
            {
                "spi_i": self.handshake.spi_i.hex(),
                "spi_r": self.handshake.spi_r.hex(),
                "encryption": self.cipher,
                "integrity": "NONE" if self.aead else self.code.number,
                **{name: key.hex() for name, key in keys.items()},
            }
        )

    def key_file(self, *others):
        """A key file of ikeanalyze, also with the key sets of other IKE SAs."""
        return json.dumps(
            {"schema": "ikeanalyze.keys/1", "key_sets": [*self.sets, *(k for o in others for k in o.sets)]}
        )

    def _protect(self, head, plaintext, from_initiator):
        """Encrypt a message; `head`: the message up to the IV, with the final lengths."""
        side = "i" if from_initiator else "r"
        iv = self.rng.randbytes(self.encryption.iv)
        body = iv + self.encryption.encrypt(self.keys[f"sk_e{side}"], iv, plaintext, head)
        if self.code:
            body += self.code.compute(self.keys[f"sk_a{side}"], head + body)[: self.code.icv]
        return head + body

    def _message(self, kind, flags, ident, first, chain, fragment=None):
        padding = -(len(chain) + 1) % self.encryption.block
        plaintext = chain + bytes(padding) + bytes([padding])
        icv = self.code.icv if self.code else self.encryption.icv
        numbers = b"" if fragment is None else struct.pack(">HH", *fragment)
        size = 4 + len(numbers) + self.encryption.iv + len(plaintext) + icv
        outer = ike.SK if fragment is None else ike.SKF
        head = ike.ike_header(self.handshake.spi_i, self.handshake.spi_r, outer, kind, flags, ident, 28 + size)
        head += struct.pack(">BBH", first, 0, size) + numbers
        return self._protect(head, plaintext, bool(flags & ike.INITIATOR))

    def message(self, kind, payloads, ident, *, response=False, from_initiator=None):
        """One message with SK."""
        return self.fragments(kind, payloads, ident, response=response, from_initiator=from_initiator, count=None)[0]

    def fragments(self, kind, payloads, ident, *, count, response=False, from_initiator=None):
        """A message in `count` fragments; None: with SK."""
        sender = not response if from_initiator is None else from_initiator
        flags = ike.INITIATOR * sender | ike.RESPONSE * response
        first, chain = ike.chain(payloads)
        if count is None:
            return [self._message(kind, flags, ident, first, chain)]
        step = -(-len(chain) // count)
        parts = [chain[at * step : (at + 1) * step] for at in range(count)]
        return [
            self._message(kind, flags, ident, first if number == 1 else 0, part, (number, count))
            for number, part in enumerate(parts, 1)
        ]


def captured(*datagrams):
    """A capture with these datagrams; each is paired with whether the initiator sent it.

    One every two milliseconds: a message that comes again within one is a copy of a mirror port.
    """
    trace = Trace(mtu=9000)
    for number, (data, from_initiator) in enumerate(datagrams):
        trace.send(2 * number * MS, data, from_initiator=from_initiator)
    return trace.pcap()


def init(sa, *transforms):
    sa.handshake.proposals = (sa.proposal(*transforms),)
    return [(message.datagrams[0], message.from_initiator) for message in sa.handshake.init()]


def matrix(fragmented):
    """An IKE SA for each cipher with each integrity algorithm, key sizes in turn; all in one capture.

    IKE_INTERMEDIATE carries ML-KEM-768. Returns the capture, its key file, and names of the IKE SAs in order.
    """
    rng, trace, sas, names = Random(f"matrix {fragmented}"), Trace(mtu=9000), [], []
    for cipher, encryption in CIPHERS.items():
        for number, code in enumerate(CODES if not encryption.icv else [""]):
            size = encryption.sizes[number % len(encryption.sizes)]
            sa = EncryptedSa(rng, cipher, Handshake(rng, switch=False), integrity=code, key_size=size)
            sas.append(sa)
            names.append((cipher, code))
            datagrams = init(sa, ike.Transform(ike.ADDKE1, ike.ML_KEM_768))
            for epoch, kind in enumerate([ike.IKE_INTERMEDIATE, ike.IKE_AUTH]):
                sa.next_epoch()
                for response in (False, True):
                    payloads = [ike.ke(ike.ML_KEM_768, bytes(ike.KE_BYTES[ike.ML_KEM_768][response]))]
                    if epoch:
                        payloads = AUTH_RESPONSE if response else [(43, bytes(900)), *AUTH]
                    count = 2 if fragmented and len(payloads) != 2 else None
                    parts = sa.fragments(kind, payloads, epoch + 1, response=response, count=count)
                    datagrams += [(part, not response) for part in parts]
            for data, from_initiator in datagrams:
                trace.send(len(trace.packets) * MS, data, from_initiator=from_initiator)
    return trace.pcap(), sas[0].key_file(*sas[1:]), names
