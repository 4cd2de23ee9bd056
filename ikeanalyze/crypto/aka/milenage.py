"""Milenage: the functions of UMTS authentication that USIM and operator share (3GPP TS 35.206).

No library of ours has them; AES comes from `cryptography`. All rotations and constants are the standard's defaults.
"""

from dataclasses import dataclass, field
from typing import Final

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

#: Bytes of K, OP, OPc and RAND; of SQN and AK; of AMF.
BLOCK_BYTES: Final = 16
SQN_BYTES: Final = 6
AMF_BYTES: Final = 2
_MAC_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class AkaVector:
    """What USIM and operator compute from a challenge, apart from the MAC."""

    res: bytes = field(repr=False)  # f2, 8 bytes
    ck: bytes = field(repr=False)  # f3, 16 bytes
    ik: bytes = field(repr=False)  # f4, 16 bytes
    ak: bytes = field(repr=False)  # f5, 6 bytes: hides SQN in AUTN
    ak_star: bytes = field(repr=False)  # f5*, 6 bytes: hides SQN in AUTS


@dataclass(frozen=True, slots=True)
class Milenage:
    """The functions for one subscriber."""

    ki: bytes = field(repr=False)  # the subscriber's key, 16 bytes
    opc: bytes = field(repr=False)  # the operator's value for this key, 16 bytes

    def compute_macs(self, rand: bytes, sqn: bytes, amf: bytes) -> tuple[bytes, bytes]:
        """Return MAC-A (f1) and MAC-S (f1*), 8 bytes each, for RAND (16 bytes), SQN (6) and AMF (2)."""
        rotated = _rotate(_xor((sqn + amf) * 2, self.opc), 8)
        output = _xor(self._encrypt(_xor(self._mask(rand), rotated)), self.opc)  # c1 is zero
        return output[:_MAC_BYTES], output[_MAC_BYTES:]

    def compute_vector(self, rand: bytes) -> AkaVector:
        """Return the results of f2 to f5 and f5* for RAND (16 bytes)."""
        masked = _xor(self._mask(rand), self.opc)

        def compute_output(rotation: int, constant: int) -> bytes:
            block = _xor(_rotate(masked, rotation), constant.to_bytes(BLOCK_BYTES))
            return _xor(self._encrypt(block), self.opc)

        output_2 = compute_output(0, 1)
        return AkaVector(
            res=output_2[8:],
            ck=compute_output(4, 2),
            ik=compute_output(8, 4),
            ak=output_2[:SQN_BYTES],
            ak_star=compute_output(12, 8)[:SQN_BYTES],
        )

    def build_autn(self, rand: bytes, sqn: bytes, amf: bytes) -> bytes:
        """Return AUTN, 16 bytes: SQN hidden by AK, AMF and MAC-A (3GPP TS 33.102, section 6.3.2)."""
        mac_a, _ = self.compute_macs(rand, sqn, amf)
        return _xor(sqn, self.compute_vector(rand).ak) + amf + mac_a

    def _mask(self, rand: bytes) -> bytes:
        """The standard's TEMP."""
        return self._encrypt(_xor(rand, self.opc))

    def _encrypt(self, block: bytes) -> bytes:
        return _encrypt_block(self.ki, block)


def derive_opc(ki: bytes, op: bytes) -> bytes:
    """Return OPc, 16 bytes, from the subscriber's key and the operator's OP, 16 bytes each (TS 35.206, section 4.1)."""
    return _xor(_encrypt_block(ki, op), op)


def reveal_sqn(autn: bytes, vector: AkaVector) -> tuple[bytes, bytes, bytes]:
    """Return SQN (6 bytes), AMF (2) and MAC-A (8) of an AUTN of 16 bytes."""
    end = SQN_BYTES + AMF_BYTES
    return _xor(autn[:SQN_BYTES], vector.ak), autn[SQN_BYTES:end], autn[end:]


def _encrypt_block(key: bytes, block: bytes) -> bytes:
    return Cipher(AES(key), ECB()).encryptor().update(block)


def _rotate(block: bytes, count: int) -> bytes:
    """Rotate to the left by a number of bytes: all of the standard's rotations are multiples of 8 bits."""
    return block[count:] + block[:count]


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
