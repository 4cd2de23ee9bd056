"""HIP packets (RFC 7401; HIP DEX as in draft-ietf-hip-dex) and the messages of a whole association.

Layouts are real, ciphertext, public values, check values and signatures are random: nobody looks into them.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from random import Random
from typing import Literal

from . import checksum, ip
from .transport import udp_packet

I1, R1, I2, R2, UPDATE, NOTIFY, CLOSE, CLOSE_ACK = 1, 2, 3, 4, 16, 17, 18, 19

ESP_INFO, R1_COUNTER, LOCATOR_SET, PUZZLE, SOLUTION, SEQ, ACK = 65, 129, 193, 257, 321, 385, 449
DH_GROUP_LIST, DIFFIE_HELLMAN, HIP_CIPHER, ENCRYPTED, ENCRYPTED_KEY, I_NONCE = 511, 513, 579, 641, 643, 644
HOST_ID, HIT_SUITE_LIST, NOTIFICATION, ECHO_REQUEST, ECHO_RESPONSE = 705, 715, 832, 897, 961
TRANSPORT_FORMAT_LIST, ESP_TRANSFORM, HIP_MAC, HIP_MAC_2 = 2049, 4095, 61505, 61569
HIP_SIGNATURE_2, HIP_SIGNATURE = 61633, 61697
FROM, RVS_HMAC = 65498, 65500

RSA, ECDSA, ECDH = 5, 7, 11
DH_P256, DH_X25519 = 7, 12
AES_128_CBC, AES_128_CTR = 2, 5
BLOCKED_BY_POLICY, I2_ACKNOWLEDGEMENT = 42, 16384
PORT = 10500

Parameter = tuple[int, bytes]


def parameter(kind: int, content: bytes) -> bytes:
    """Type, length, contents, padding to a multiple of 8 bytes (RFC 7401, section 5.2.1)."""
    data = struct.pack(">HH", kind, len(content)) + content
    return data + bytes(-len(data) % 8)


def packet(
    kind: int,
    sender: bytes,
    receiver: bytes,
    parameters: Sequence[Parameter] = (),
    *,
    controls: int = 0,
    version: int = 2,
) -> bytes:
    """Without checksum, as in UDP."""
    body = b"".join(parameter(*item) for item in parameters)
    head = struct.pack(">BBBBHH", 59, (40 + len(body)) // 8 - 1, kind, version << 4 | 1, 0, controls)
    return head + sender + receiver + body


def with_checksum(data: bytes, source: str, destination: str) -> bytes:
    """As outside UDP: over the pseudo-header of IPv6 or IPv4 (RFC 7401, section 5.1.1)."""
    return data[:4] + struct.pack(">H", checksum.with_pseudo_header(data, source, destination, ip.HIP)) + data[6:]


def esp_info(new: int, old: int = 0, keymat: int = 0) -> Parameter:
    return ESP_INFO, struct.pack(">HHII", 0, keymat, old, new)


def numbers16(kind: int, *values: int, reserved: int = 0) -> Parameter:
    return kind, bytes(reserved) + struct.pack(f">{len(values)}H", *values)


def notification(kind: int, data: bytes = b"") -> Parameter:
    return NOTIFICATION, struct.pack(">HH", 0, kind) + data


def host_id(algorithm: int, identity: bytes, domain: bytes = b"") -> Parameter:
    """`domain`: a host name."""
    lengths = struct.pack(">HHH", len(identity), bool(domain) << 12 | len(domain), algorithm)
    return HOST_ID, lengths + identity + domain


def locators(*addresses: str) -> Parameter:
    entries = (struct.pack(">BBBBI", 0, 0, 4, 1, 120) + _mapped(address) for address in addresses)
    return LOCATOR_SET, b"".join(entries)


def _mapped(address: str) -> bytes:
    packed = ip_address(address).packed
    return packed if len(packed) == 16 else bytes(10) + b"\xff\xff" + packed


@dataclass(frozen=True, slots=True)
class HipMessage:
    """One HIP packet on its way: its bytes without IP and UDP."""

    data: bytes
    from_initiator: bool
    kind: int


class Association:
    """Two hosts: each method gives the packets that follow.

    `method`: "BEX" signs with RSA-2048 and does ephemeral ECDH on P-256; "DEX" has static X25519 keys, no
    signatures, and a CMAC in HIP_MAC.
    """

    def __init__(
        self,
        rng: Random | int = 1,
        method: Literal["BEX", "DEX"] = "BEX",
        *,
        initiator: str = "192.0.2.1",
        responder: str = "192.0.2.2",
        udp: bool = False,
        opportunistic: bool = False,
        hits: tuple[bytes, bytes] | None = None,
    ) -> None:
        self.rng = Random(rng) if isinstance(rng, int) else rng
        self.method, self.udp, self.opportunistic = method, udp, opportunistic
        self.initiator, self.responder = initiator, responder
        prefix = bytes.fromhex("20010021" if method == "BEX" else "20010028")
        self.hit_i, self.hit_r = hits or (prefix + self.rng.randbytes(12), prefix + self.rng.randbytes(12))
        self.spi_i, self.spi_r = self.rng.getrandbits(32), self.rng.getrandbits(32)
        self.update_id = {True: 1, False: 1}

    def message(
        self,
        kind: int,
        parameters: Sequence[Parameter] = (),
        *,
        from_initiator: bool = True,
        receiver: bytes | None = None,
    ) -> HipMessage:
        hits = (self.hit_i, self.hit_r) if from_initiator else (self.hit_r, self.hit_i)
        data = packet(kind, hits[0], receiver or hits[1], parameters)
        return HipMessage(data, from_initiator, kind)

    def ip(
        self, message: HipMessage, *, ttl: int = 64, source: str | None = None, destination: str | None = None
    ) -> bytes:
        """The IP packet that carries it; between the peers, unless a rendezvous server is its source or destination."""
        ends = (self.initiator, self.responder) if message.from_initiator else (self.responder, self.initiator)
        source, destination = source or ends[0], destination or ends[1]
        if self.udp:
            return udp_packet(bytes(4) + message.data, PORT, PORT, source, destination, ttl=ttl)
        data = with_checksum(message.data, source, destination)
        return ip.packet(data, source, destination, ip.HIP, ttl=ttl)

    # ---- parts

    def _mac(self, kind: int = HIP_MAC) -> Parameter:
        return kind, self.rng.randbytes(32 if self.method == "BEX" else 16)

    def _signature(self, kind: int = HIP_SIGNATURE) -> list[Parameter]:
        if self.method == "DEX":
            return []
        return [(kind, struct.pack(">H", RSA) + self.rng.randbytes(256))]

    def _host_id(self, domain: bytes = b"") -> Parameter:
        if self.method == "DEX":
            return host_id(ECDH, struct.pack(">H", DH_X25519) + self.rng.randbytes(32), domain)
        # exponent length, exponent, modulus (RFC 3110, section 2)
        return host_id(RSA, b"\x03\x01\x00\x01" + self.rng.randbytes(256), domain)

    def _dh(self) -> list[Parameter]:
        if self.method == "DEX":
            return []
        return [(DIFFIE_HELLMAN, struct.pack(">BH", DH_P256, 64) + self.rng.randbytes(64))]

    @property
    def _cipher(self) -> int:
        return AES_128_CBC if self.method == "BEX" else AES_128_CTR

    # ---- the base exchange

    def i1(self) -> HipMessage:
        group = DH_P256 if self.method == "BEX" else DH_X25519
        return self.message(I1, [(DH_GROUP_LIST, bytes([group]))], receiver=bytes(16) if self.opportunistic else None)

    def relayed_i1(self, *senders: str) -> HipMessage:
        """I1 as rendezvous servers relay it (RFC 8004, section 4.3): with the sender's address for each of them."""
        origins = [(FROM, _mapped(address)) for address in senders or (self.initiator,)]
        return self.message(I1, [(DH_GROUP_LIST, bytes([DH_P256])), *origins, (RVS_HMAC, self.rng.randbytes(32))])

    def r1(self, difficulty: int = 10) -> HipMessage:
        group = DH_P256 if self.method == "BEX" else DH_X25519
        suites = b"\x10\x20" if self.method == "BEX" else b"\x80"
        return self.message(
            R1,
            [
                (R1_COUNTER, bytes(4) + struct.pack(">Q", 7)),
                (PUZZLE, bytes([difficulty, 37]) + self.rng.randbytes(34)),
                *([(DH_GROUP_LIST, bytes([group]))] if self.method == "DEX" else []),
                *self._dh(),
                numbers16(HIP_CIPHER, self._cipher, 1),
                self._host_id(b"responder.example"),
                (HIT_SUITE_LIST, suites),
                numbers16(TRANSPORT_FORMAT_LIST, ESP_TRANSFORM),
                numbers16(ESP_TRANSFORM, 8, 9, reserved=2),
                *self._signature(HIP_SIGNATURE_2),
            ],
            from_initiator=False,
        )

    def i2(self, difficulty: int = 10) -> HipMessage:
        return self.message(
            I2,
            [
                esp_info(self.spi_i),
                (R1_COUNTER, bytes(4) + struct.pack(">Q", 7)),
                (SOLUTION, bytes([difficulty, 0]) + self.rng.randbytes(66)),
                *self._dh(),
                numbers16(HIP_CIPHER, self._cipher),
                *(
                    [(ENCRYPTED_KEY, self.rng.randbytes(48)), (I_NONCE, self.rng.randbytes(16))]
                    if self.method == "DEX"
                    else []
                ),
                self._host_id(),
                numbers16(TRANSPORT_FORMAT_LIST, ESP_TRANSFORM),
                numbers16(ESP_TRANSFORM, 8, reserved=2),
                self._mac(),
                *self._signature(),
            ],
        )

    def r2(self) -> HipMessage:
        parameters = [esp_info(self.spi_r)]
        if self.method == "DEX":
            parameters += [(ENCRYPTED_KEY, self.rng.randbytes(48)), self._mac()]
        else:
            parameters += [self._mac(HIP_MAC_2), *self._signature()]
        return self.message(R2, parameters, from_initiator=False)

    def setup(self) -> list[HipMessage]:
        """I1, R1, I2, R2."""
        return [self.i1(), self.r1(), self.i2(), self.r2()]

    # ---- afterwards

    def _update(self, parameters: Sequence[Parameter], *, from_initiator: bool) -> HipMessage:
        listed = [*parameters, self._mac(), *self._signature()]
        return self.message(UPDATE, listed, from_initiator=from_initiator)

    def update(self, *, by_initiator: bool = True, address: str = "192.0.2.9") -> list[HipMessage]:
        """A change of address with its return routability check (RFC 8046, section 3.2.1): three packets."""
        own, other = self.update_id[by_initiator], self.update_id[not by_initiator]
        self.update_id[by_initiator] += 1
        self.update_id[not by_initiator] += 1
        seq, other_seq = (SEQ, struct.pack(">I", own)), (SEQ, struct.pack(">I", other))
        ack, other_ack = (ACK, struct.pack(">I", own)), (ACK, struct.pack(">I", other))
        echo = self.rng.randbytes(8)
        spi = self.spi_i if by_initiator else self.spi_r
        return [
            self._update([esp_info(spi, spi), locators(address), seq], from_initiator=by_initiator),
            self._update([esp_info(spi, spi), other_seq, ack, (ECHO_REQUEST, echo)], from_initiator=not by_initiator),
            self._update([other_ack, (ECHO_RESPONSE, echo)], from_initiator=by_initiator),
        ]

    def acknowledged(self, *, by_initiator: bool = True) -> list[HipMessage]:
        """An UPDATE and its acknowledgement."""
        own = struct.pack(">I", self.update_id[by_initiator])
        self.update_id[by_initiator] += 1
        return [
            self._update([(SEQ, own)], from_initiator=by_initiator),
            self._update([(ACK, own)], from_initiator=not by_initiator),
        ]

    def notify(self, kind: int = BLOCKED_BY_POLICY, *, from_initiator: bool = False) -> HipMessage:
        return self.message(NOTIFY, [notification(kind), *self._signature()], from_initiator=from_initiator)

    def close(self, *, by_initiator: bool = True) -> list[HipMessage]:
        echo = self.rng.randbytes(16)
        return [
            self.message(CLOSE, [(ECHO_REQUEST, echo), self._mac(), *self._signature()], from_initiator=by_initiator),
            self.message(
                CLOSE_ACK,
                [(ECHO_RESPONSE, echo), self._mac(), *self._signature()],
                from_initiator=not by_initiator,
            ),
        ]
