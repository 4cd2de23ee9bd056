"""IKE SAs whose encrypted messages are what they seem: each is made with keys that the test has."""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from ikeanalyze.crypto.sk_payload import MessageCipher, encrypt_message
from ikeanalyze.keys.key_set import KeySet, Origin
from ikeanalyze.wire.header import Header
from tests.craft import Handshake, Message, ike
from tests.craft.ike import Payload, Proposal

ENCR_AES_CTR = 13

#: By cipher: bytes of SK_e and SK_a, of the IV, Wireshark's names.
CIPHERS = {
    ike.ENCR_AES_GCM_16: (36, 0, 8, "AES-GCM-256 with 16 octet ICV [RFC5282]", "NONE [RFC4306]"),
    ENCR_AES_CTR: (20, 32, 8, "AES-CTR-128 [RFC5930]", "HMAC_SHA2_256_128 [RFC4868]"),
    ike.ENCR_AES_CBC: (16, 32, 16, "AES-CBC-128 [RFC3602]", "HMAC_SHA2_256_128 [RFC4868]"),
}

Key = tuple[int, int, bool, bool]
"""Message ID, exchange type, sent by the initiator, response."""


def encapsulation_key(rng: Random, method: int = ike.ML_KEM_768) -> bytes:
    """One whose coefficients are below 3329 (FIPS 203, section 7.2)."""
    size = ike.KE_BYTES[method][0]
    data = b""
    for _ in range((size - 32) // 3):
        a, b = rng.randrange(3329), rng.randrange(3329)
        data += bytes([a & 255, a >> 8 | (b & 15) << 4, b >> 4])
    return data + rng.randbytes(32)


def selectors(kind: int, network: str = "10.1.0") -> Payload:
    """TSi or TSr: one IPv4 network of 256 addresses."""
    low, high = (bytes([*map(int, network.split(".")), last]) for last in (0, 255))
    return kind, struct.pack(">B3x", 1) + struct.pack(">BBHHH", 7, 0, 16, 0, 65535) + low + high


ESP = ike.sa([Proposal([ike.Transform(ike.ENCR, ike.ENCR_AES_GCM_16, 256), ike.Transform(ike.ESN, 0)], 3, b"spi!")])
CHILD: tuple[Payload, ...] = (ESP, selectors(ike.TS_I), selectors(ike.TS_R, "10.2.0"))
IDENTITIES = {True: ike.identification(ike.ID_I, b"ini"), False: ike.identification(ike.ID_R, b"res")}
PSK = ike.auth(2, bytes(32))


@dataclass(frozen=True, slots=True)
class Put:
    """What was put into one encrypted message."""

    first: int
    plaintext: bytes
    clear: tuple[Payload, ...]
    epoch: int

    @property
    def types(self) -> list[int]:
        """Types of all payloads, those in front of the encrypted one first."""
        result, kind, at = [kind for kind, _ in self.clear], self.first, 0
        while kind:
            result.append(kind)
            kind, length = self.plaintext[at], int.from_bytes(self.plaintext[at + 2 : at + 4], "big")
            at += length
        return result


class Sa(Handshake):
    """An IKE SA with a key set for each epoch; `put` remembers what went into its messages."""

    def __init__(
        self,
        rng: Random | int = 1,
        *,
        proposals: Sequence[Proposal] = (ike.HYBRID,),
        epochs: int | None = None,
        spis: tuple[bytes, bytes] | None = None,
        **rest: object,
    ) -> None:
        super().__init__(rng, proposals=proposals, **rest)
        if spis is not None:
            self.spi_i, self.spi_r = spis
        chosen = proposals[0].transforms
        self.cipher = next(item.number for item in chosen if item.kind == ike.ENCR)
        count = 1 + sum(item.kind >= ike.ADDKE1 for item in chosen) if epochs is None else epochs
        self.key_sets = [self._keys() for _ in range(count)]
        self.epoch = 0
        self.inside: dict[Key, Put] = {}

    def _keys(self) -> KeySet:
        size_e, size_a, *_ = CIPHERS[self.cipher]
        integrity = ike.AUTH_HMAC_SHA2_256_128 if size_a else 0
        parts = [self.rng.randbytes(size) for size in (size_e, size_e, size_a, size_a)]
        return KeySet(
            origin=Origin("test", None),
            spi_i=self.spi_i,
            spi_r=self.spi_r,
            encryption=self.cipher,
            integrity=integrity,
            sk_ei=parts[0],
            sk_er=parts[1],
            sk_ai=parts[2],
            sk_ar=parts[3],
        )

    def put(
        self,
        exchange_type: int,
        payloads: Sequence[Payload],
        *,
        from_initiator: bool = True,
        response: bool = False,
        message_id: int | None = None,
        fragments: int = 1,
        clear: Sequence[Payload] = (),
        keys: KeySet | None = None,
    ) -> Message:
        """An encrypted message; `fragments`: in how many. `keys`: others than those of the epoch."""
        by_initiator = from_initiator != response
        ident = self.message_id[by_initiator] if message_id is None else message_id
        first, plaintext = ike.chain(payloads)
        flags = ike.INITIATOR * from_initiator | ike.RESPONSE * response
        header = Header(self.spi_i, self.spi_r, 0, 0x20, exchange_type, flags, ident, 0)
        self.inside[ident, exchange_type, from_initiator, response] = Put(first, plaintext, tuple(clear), self.epoch)
        keys = self.key_sets[self.epoch] if keys is None else keys
        step = max(-(-len(plaintext) // fragments), 1)
        parts = [plaintext[at : at + step] for at in range(0, step * fragments, step)]
        datagrams = [
            encrypt_message(
                MessageCipher(keys), header, first if number == 1 else 0, part, self.rng.randbytes(CIPHERS[self.cipher][2]),
                fragment=None if fragments == 1 else (number, fragments), clear=clear if number == 1 else (),
            )
            for number, part in enumerate(parts, 1)
        ]  # fmt: skip
        return self._message(datagrams, exchange_type, ident, from_initiator, response)

    def swap(
        self,
        exchange_type: int,
        request: Sequence[Payload],
        response: Sequence[Payload],
        *,
        fragments: tuple[int, int] = (1, 1),
        by_initiator: bool = True,
    ) -> list[Message]:
        """A request and its response."""
        ident = self.message_id[by_initiator]
        self.message_id[by_initiator] += 1
        return [
            self.put(
                exchange_type, payloads, from_initiator=by_initiator != answers, response=answers,
                message_id=ident, fragments=count,
            )
            for answers, payloads, count in zip((False, True), (request, response), fragments, strict=True)
        ]  # fmt: skip

    def kem(self, method: int = ike.ML_KEM_768, *, fragments: tuple[int, int] = (2, 1)) -> list[Message]:
        """IKE_INTERMEDIATE with ML-KEM; the next epoch begins."""
        key, ciphertext = encapsulation_key(self.rng, method), self.rng.randbytes(ike.KE_BYTES[method][1])
        messages = self.swap(
            ike.IKE_INTERMEDIATE, [ike.ke(method, key)], [ike.ke(method, ciphertext)], fragments=fragments
        )
        self.epoch += 1
        return messages

    def authenticated(
        self,
        *,
        request: Sequence[Payload] | None = None,
        response: Sequence[Payload] | None = None,
        fragments: tuple[int, int] = (1, 1),
    ) -> list[Message]:
        """IKE_AUTH; by default with pre-shared keys, and a CHILD_SA."""
        sides = [
            [IDENTITIES[initiator], PSK, *CHILD] if given is None else given
            for initiator, given in ((True, request), (False, response))
        ]
        return self.swap(ike.IKE_AUTH, *sides, fragments=fragments)

    def whole(self, *, fragments: tuple[int, int] = (2, 1), auth: tuple[int, int] = (1, 1)) -> list[Message]:
        """All of a set-up, with an IKE_INTERMEDIATE exchange for each additional key exchange."""
        result = self.init()
        for transform in self.proposals[0].transforms:
            if transform.kind >= ike.ADDKE1:
                result += self.kem(transform.number, fragments=fragments)
        return result + self.authenticated(fragments=auth)


def table(*key_sets: KeySet) -> str:
    """Wireshark's ikev2_decryption_table."""
    rows = []
    for keys in key_sets:
        _, _, _, encryption, integrity = CIPHERS[keys.encryption]
        hexed = [value.hex() for value in (keys.spi_i, keys.spi_r, keys.sk_ei, keys.sk_er)]
        rows.append(",".join([*hexed, f'"{encryption}"', keys.sk_ai.hex(), keys.sk_ar.hex(), f'"{integrity}"']))
    return "\n".join(rows) + "\n"


def nameless(*key_sets: KeySet) -> str:
    """A list of key sets that says neither of which IKE SA nor for which algorithms they are."""
    names = {"Sk_ei": "sk_ei", "Sk_er": "sk_er", "Sk_ai": "sk_ai", "Sk_ar": "sk_ar"}
    return json.dumps(
        [
            {label: getattr(keys, name).hex() for label, name in names.items() if getattr(keys, name)}
            for keys in key_sets
        ]
    )
