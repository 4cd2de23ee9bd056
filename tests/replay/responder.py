"""An IKEv2 responder for tests, written from the RFCs with craft, the standard library and cryptography.

It shares no code with the product: keys, IntAuth and AUTH are computed independently. It does no I/O: `answer` takes a
datagram and returns those that it sends back. Attributes set how it deviates from a correct responder.
"""

import hashlib
import hmac
import struct
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric import ec, mlkem, x25519
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.craft import eap as craft_eap
from tests.craft import ike

X25519, ECP_256, ECP_384, ML_KEM_768, ML_KEM_1024 = 31, 19, 20, 36, 37
SPI_R = b"RESPONDE"
IDENTITY = b"\2\0\0\0responder.lab"
KEY_PAD = b"Key Pad for IKEv2"


def prf(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


def prf_plus(key: bytes, seed: bytes, size: int) -> bytes:
    stream = block = b""
    for count in range(1, 256):
        block = prf(key, block + seed + bytes([count]))
        stream += block
        if len(stream) >= size:
            return stream[:size]
    raise AssertionError


def agree(method: int, theirs: bytes) -> tuple[bytes, bytes]:
    """Our data of the KE payload, and the shared secret."""
    if method == X25519:
        key = x25519.X25519PrivateKey.generate()
        peer = x25519.X25519PublicKey.from_public_bytes(theirs)
        return key.public_key().public_bytes_raw(), key.exchange(peer)
    if method in (ECP_256, ECP_384):
        curve = ec.SECP256R1() if method == ECP_256 else ec.SECP384R1()
        size = 32 if method == ECP_256 else 48
        own = ec.generate_private_key(curve)
        point = ec.EllipticCurvePublicNumbers(
            int.from_bytes(theirs[:size]), int.from_bytes(theirs[size:]), curve
        ).public_key()
        numbers = own.public_key().public_numbers()
        return numbers.x.to_bytes(size) + numbers.y.to_bytes(size), own.exchange(ec.ECDH(), point)
    kinds = {ML_KEM_768: mlkem.MLKEM768PublicKey, ML_KEM_1024: mlkem.MLKEM1024PublicKey}
    secret, ciphertext = kinds[method].from_public_bytes(theirs).encapsulate()
    return ciphertext, secret


def parsed(first: int, data: bytes) -> list[tuple[int, bytes]]:
    result, kind, at = [], first, 0
    while kind:
        following, _, size = struct.unpack_from(">BBH", data, at)
        assert size >= 4
        result.append((kind, data[at + 4 : at + size]))
        kind, at = following, at + size
    assert at == len(data)
    return result


@dataclass
class Keys:
    """Of one epoch: AES-GCM-16-256, or AES-CBC-256 with HMAC-SHA2-256-128."""

    aead: bool
    d: bytes
    ai: bytes
    ar: bytes
    ei: bytes
    er: bytes
    pi: bytes
    pr: bytes

    @classmethod
    def of(cls, aead: bool, seed: bytes, nonces: bytes, spis: bytes) -> "Keys":
        sizes = (32, 0, 0, 36, 36, 32, 32) if aead else (32, 32, 32, 32, 32, 32, 32)
        stream, parts = prf_plus(seed, nonces + spis, sum(sizes)), []
        for size in sizes:
            parts.append(stream[:size])
            stream = stream[size:]
        return cls(aead, *parts)

    def encrypt_message(self, before: bytes, plaintext: bytes, *, ours: bool = True) -> bytes:
        """`before`: the message up to the IV, its lengths those of `size`."""
        key, mac = (self.er, self.ar) if ours else (self.ei, self.ai)
        if self.aead:
            iv = hashlib.sha256(before + plaintext).digest()[:8]
            return iv + AESGCM(key[:32]).encrypt(key[32:] + iv, plaintext + b"\0", before)
        iv = hashlib.sha256(before + plaintext).digest()[:16]
        padding = -(len(plaintext) + 1) % 16
        encryptor = Cipher(algorithms.AES(key), modes.CBC(iv)).encryptor()
        body = iv + encryptor.update(plaintext + bytes(padding) + bytes([padding]))
        return body + prf(mac, before + body)[:16]

    def size(self, plaintext: bytes) -> int:
        if self.aead:
            return 8 + len(plaintext) + 1 + 16
        return 16 + len(plaintext) + 1 + -(len(plaintext) + 1) % 16 + 16

    def open(self, message: bytes, start: int, *, theirs: bool = True) -> bytes:
        key, mac = (self.ei, self.ai) if theirs else (self.er, self.ar)
        if self.aead:
            nonce = key[32:] + message[start : start + 8]
            padded = AESGCM(key[:32]).decrypt(nonce, message[start + 8 :], message[:start])
        else:
            assert prf(mac, message[:-16])[:16] == message[-16:]
            decryptor = Cipher(algorithms.AES(key), modes.CBC(message[start : start + 16])).decryptor()
            padded = decryptor.update(message[start + 16 : -16])
        return padded[: len(padded) - 1 - padded[-1]]


@dataclass
class Responder:
    """One IKE SA, of the first proposal that the initiator offers."""

    psk: bytes = b"swordfish"
    cookies: int = 0  # how often a cookie is asked for
    wants: int | None = None  # the key exchange method that is insisted on
    fragment_size: int | None = None  # of our messages
    init_notifies: list[ike.Payload] = field(
        default_factory=lambda: [
            ike.notify(ike.FRAGMENTATION_SUPPORTED),
            ike.notify(ike.SIGNATURE_HASH_ALGORITHMS, b"\0\2\0\3"),
            ike.notify(ike.INTERMEDIATE_EXCHANGE_SUPPORTED),
        ]
    )
    addresses: tuple[str, str] = ("192.0.2.1", "192.0.2.2")  # of the initiator as we see it, ours
    auth_notifies: list[ike.Payload] = field(default_factory=list)
    md5_password: bytes | None = None  # authenticate the initiator by EAP-MD5
    proposal: bytes | None = None  # SA payload to choose, whatever was offered
    method: int = 0
    epochs: list[Keys] = field(default_factory=list)
    seen: list[list[tuple[int, bytes]]] = field(default_factory=list)  # payloads of each request
    child: bool = True  # it takes a CHILD_SA
    established: bool = False
    deleted: bool = False
    refused: list[int] = field(default_factory=list)  # error notifies that the initiator sent

    def __post_init__(self) -> None:
        self.nonce = b"R" * 32
        self.int_auth = b"", b""
        self.parts: dict[int, tuple[int, bytes, bytes]] = {}
        self.additional: list[int] = []
        self.sent: dict[bytes, list[bytes]] = {}  # responses, for requests that come again

    # ---- datagrams

    def answer(self, data: bytes) -> list[bytes]:
        """What is sent back; the same again for a request that was there."""
        if data not in self.sent:
            self.sent[data] = self._answer(data)
        return self.sent[data]

    def _answer(self, data: bytes) -> list[bytes]:
        spi_i, spi_r, kind, _, exchange, flags, ident, length = struct.unpack_from(">8s8sBBBBII", data)
        assert length == len(data)
        assert flags == ike.INITIATOR
        if exchange == ike.IKE_SA_INIT:
            assert spi_r == bytes(8)
            return [self._init(spi_i, data, parsed(kind, data[28:]))]
        assert spi_r == SPI_R
        keys = self.epochs[-1]
        first, _, size, *numbers = struct.unpack_from(">BBHHH", data, 28)
        assert 28 + size == len(data)
        if kind == ike.SK:
            plaintext, message = keys.open(data, 32), data
        else:
            number, total = numbers
            self.parts[number] = (first, keys.open(data, 36), data)
            if len(self.parts) < total:
                return []
            ordered = [self.parts[number] for number in range(1, total + 1)]
            assert {item[0] for item in ordered[1:]} <= {0}
            first, plaintext, message = ordered[0][0], b"".join(item[1] for item in ordered), ordered[0][2]
            self.parts = {}
        payloads = parsed(first, plaintext)
        self.seen.append(payloads)
        header = message[:28]
        inner = self._protected(exchange, ident, payloads)
        first_r, chain = ike.chain(inner)
        sent = self.encrypt_message(exchange, ident, first_r, chain, keys)
        if exchange == ike.IKE_INTERMEDIATE:
            self._authenticate(keys, header, first, plaintext, sent[0][:28], first_r, chain)
            self._next_epoch()
        return sent

    def encrypt_message(
        self, exchange: int, ident: int, first: int, chain: bytes, keys: Keys | None = None, flags: int = 0x20
    ) -> list[bytes]:
        """A message of ours, with SK, or in fragments with SKF."""
        keys = keys or self.epochs[-1]
        size = self.fragment_size
        if size is None or len(chain) <= size:
            total = 28 + 4 + keys.size(chain)
            before = ike.ike_header(self.spi_i, SPI_R, ike.SK, exchange, flags, ident, total)
            before += struct.pack(">BBH", first, 0, total - 28)
            return [before + keys.encrypt_message(before, chain)]
        pieces = [chain[at : at + size] for at in range(0, len(chain), size)]
        result = []
        for number, piece in enumerate(pieces, 1):
            total = 28 + 8 + keys.size(piece)
            before = ike.ike_header(self.spi_i, SPI_R, ike.SKF, exchange, flags, ident, total)
            inner = first if number == 1 else 0
            before += struct.pack(">BBHHH", inner, 0, total - 28, number, len(pieces))
            result.append(before + keys.encrypt_message(before, piece))
        return result

    # ---- IKE_SA_INIT

    def _init(self, spi_i: bytes, data: bytes, payloads: list[tuple[int, bytes]]) -> bytes:
        self.spi_i = spi_i
        self.seen.append(payloads)
        bodies = dict(reversed(payloads))
        group = int.from_bytes(bodies[ike.KE][:2])

        def refuse(payload: ike.Payload) -> bytes:
            return ike.message(spi_i, bytes(8), ike.IKE_SA_INIT, ike.RESPONSE, 0, [payload])

        if self.cookies:
            self.cookies -= 1
            return refuse(ike.notify(ike.COOKIE, b"cookie %d" % self.cookies))
        if self.wants is not None and group != self.wants:
            return refuse(ike.notify(ike.INVALID_KE_PAYLOAD, struct.pack(">H", self.wants)))
        public, secret = agree(group, bodies[ike.KE][4:])
        chosen, self.aead, self.additional = self._choose(bodies[ike.SA], group)
        initiator, responder = self.addresses
        answer = ike.message(
            spi_i, SPI_R, ike.IKE_SA_INIT, ike.RESPONSE, 0,
            [
                (ike.SA, self.proposal or chosen),
                ike.ke(group, public),
                ike.nonce(self.nonce),
                ike.notify(ike.NAT_DETECTION_SOURCE_IP, ike.nat_hash(spi_i, SPI_R, responder, 500)),
                ike.notify(ike.NAT_DETECTION_DESTINATION_IP, ike.nat_hash(spi_i, SPI_R, initiator, 500)),
                *self.init_notifies,
            ],
        )  # fmt: skip
        self.nonces = bodies[ike.NONCE] + self.nonce
        self.initiators_nonce = bodies[ike.NONCE]
        seed = prf(self.nonces, secret)
        self.epochs = [Keys.of(self.aead, seed, self.nonces, spi_i + SPI_R)]
        self.messages = data, answer
        return answer

    @staticmethod
    def _choose(body: bytes, group: int) -> tuple[bytes, bool, list[int]]:
        """Choose the first transform of each type of the first proposal, and the method of the KE payload.

        Returns the proposal, whether it has AES-GCM, and the additional methods.
        """
        number, protocol = body[4], body[5]
        end, at = struct.unpack_from(">H", body, 2)[0], 8
        kept: dict[int, bytes] = {}
        while at < end:
            size, kind = struct.unpack_from(">HB", body, at + 2)
            assert size >= 8
            if kind != ike.DH or int.from_bytes(body[at + 6 : at + 8]) == group:
                kept.setdefault(kind, body[at : at + size])
            at += size
        transforms = b""
        for place, one in enumerate(kept.values(), 1):
            transforms += bytes([3 if place < len(kept) else 0]) + one[1:]
        size = 8 + len(transforms)
        chosen = struct.pack(">BxHBBBB", 0, size, number, protocol, 0, len(kept)) + transforms
        additional = [int.from_bytes(kept[kind][6:8]) for kind in range(6, 13) if kind in kept]
        return chosen, int.from_bytes(kept[1][6:8]) == 20, additional

    # ---- what is encrypted

    def _protected(self, exchange: int, ident: int, payloads: list[tuple[int, bytes]]) -> list[ike.Payload]:
        bodies = dict(reversed(payloads))
        if exchange == ike.IKE_INTERMEDIATE:
            method = self.additional.pop(0)
            assert int.from_bytes(bodies[ike.KE][:2]) == method
            public, self.secret = agree(method, bodies[ike.KE][4:])
            return [ike.ke(method, public)]
        if exchange == ike.IKE_AUTH:
            return self._auth(ident, bodies)
        for kind, body in payloads:
            if kind == ike.NOTIFY:
                self.refused.append(int.from_bytes(body[2:4]))
        self.deleted = self.deleted or bodies.get(ike.DELETE) == b"\1\0\0\0"
        return []

    def _authenticate(
        self,
        keys: Keys,
        request: bytes,
        first: int,
        inside: bytes,
        response: bytes,
        first_r: int,
        chain: bytes,
    ) -> None:
        """RFC 9242, section 3.3.2: header and SK header as if there were neither IV, padding, ICV nor fragments."""

        def octets(header: bytes, kind: int, plaintext: bytes) -> bytes:
            size = 4 + len(plaintext)
            adjusted = header[:16] + bytes([ike.SK]) + header[17:24] + struct.pack(">I", 28 + size)
            return adjusted + struct.pack(">BBH", kind, 0, size) + plaintext

        before_i, before_r = self.int_auth
        self.int_auth = (
            prf(keys.pi, before_i + octets(request, first, inside)),
            prf(keys.pr, before_r + octets(response, first_r, chain)),
        )

    def _next_epoch(self) -> None:
        seed = prf(self.epochs[-1].d, self.secret + self.nonces)
        self.epochs.append(Keys.of(self.aead, seed, self.nonces, self.spi_i + SPI_R))

    def octets(self, *, initiator: bool) -> bytes:
        keys = self.epochs[-1]
        end = b"".join(self.int_auth) + struct.pack(">I", self.first_auth) if any(self.int_auth) else b""
        if initiator:
            return self.messages[0] + self.nonce + prf(keys.pi, self.identity) + end
        return self.messages[1] + self.initiators_nonce + prf(keys.pr, IDENTITY) + end

    def shared(self, secret: bytes, *, initiator: bool) -> bytes:
        return prf(prf(secret, KEY_PAD), self.octets(initiator=initiator))

    def _auth(self, ident: int, bodies: dict[int, bytes]) -> list[ike.Payload]:
        if ike.ID_I in bodies:
            self.first_auth, self.identity = ident, bodies[ike.ID_I]
            self.security = bodies.get(ike.SA), bodies.get(ike.TS_I), bodies.get(ike.TS_R)
            if self.md5_password is not None:
                assert ike.AUTH not in bodies
                return [*self._own_proof(self.psk), (ike.EAP, craft_eap.eap(1, 7, craft_eap.IDENTITY))]
        if ike.EAP in bodies:
            return [(ike.EAP, self._eap(bodies[ike.EAP]))]
        keys = self.epochs[-1]
        after_eap = self.md5_password is not None
        expected = self.shared(keys.pi if after_eap else self.psk, initiator=True)
        if bodies[ike.AUTH] != b"\2\0\0\0" + expected:
            return [ike.notify(ike.AUTHENTICATION_FAILED)]
        self.established = True
        proof = self._own_proof(keys.pr if after_eap else self.psk)
        security, *selectors = self.security
        child = (
            []
            if security is None or not self.child
            else [(ike.SA, security), (ike.TS_I, selectors[0]), (ike.TS_R, selectors[1])]
        )
        return [*proof[after_eap:], *child, *self.auth_notifies]

    def _own_proof(self, secret: bytes) -> list[ike.Payload]:
        return [(ike.ID_R, IDENTITY), ike.auth(2, self.shared(secret, initiator=False))]

    def _eap(self, packet: bytes) -> bytes:
        assert self.md5_password is not None
        challenge = b"0123456789abcdef"
        if packet[4] == craft_eap.IDENTITY:
            return craft_eap.eap(1, 8, craft_eap.MD5, bytes([16]) + challenge)
        value = hashlib.md5(packet[1:2] + self.md5_password + challenge).digest()
        return craft_eap.eap(3 if packet[6:22] == value else 4, packet[1])
