"""Operations that a processor needs for a packet: formulas 1 to 8 of Xenakis and Merakos, "IPsec-based end-to-end VPN
deployment over UMTS".

They count for DES, 3DES and HMAC-MD5, and as functions of S_d, the whole IP packet, as the paper has it. Of other
algorithms the paper knows no number, so there is none here: who measured one can give it as operations per byte.
"""

from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from ikeanalyze.model.esp_algorithms import EspError, Suite

#: A size or a count, or many of them.
Counts = TypeVar("Counts", int, npt.NDArray[np.int64])

#: Operations for a block of 64 bits: T_DES and T_3DES.
OPERATIONS_PER_BLOCK: Final = {"null": 0, "des": 2697, "3des": 8091}
#: Operations for a block of 512 bits: T_MD5, 720 and 24 more.
T_MD5: Final = 744


def encryption_operations(cipher: str, size: Counts) -> Counts:
    """U_DES(S_d) and U_3DES(S_d), for packets of `size` bytes (the paper's formulas 1 and 2)."""
    return -(-8 * size // 64) * OPERATIONS_PER_BLOCK[cipher]


def encryption_us(cipher: str, size: int, mips: float) -> float:
    """t_DES(S_d, C_P) and t_3DES(S_d, C_P) in microseconds (the paper's formulas 3 and 4)."""
    return encryption_operations(cipher, size) / mips


def md5_blocks(size: Counts, padding: int, length: int = 64, key: int = 512) -> Counts:
    """n_k: blocks of the inner MD5 (the paper's formula 5).

    Args:
        size: bytes of the packet.
        padding: bits of the padding field, s_p.
        length: bits of the field for the message's length, s_s.
        key: bits of the inner form of the key, K.
    """
    return -(-(8 * size + padding + length + key) // 512)


def hmac_md5_operations_of_blocks(blocks: Counts) -> Counts:
    """T_HMAC-MD5(n_k): the inner blocks, and two of the outer MD5 (the paper's formula 6)."""
    return 32 + (2 + blocks) * T_MD5


def hmac_md5_operations(size: Counts) -> Counts:
    """U_HMAC-MD5(S_d) for packets of `size` bytes (the paper's formula 7).

    Where S_d is 56 above a multiple of 64, MD5 itself needs a block more: its padding is one bit at least (RFC 1321,
    section 3.1), and the formula has none.
    """
    return 2264 + T_MD5 * -(-(8 * size + 64) // 512)


def hmac_md5_us(blocks: int, mips: float) -> float:
    """t_HMAC-MD5(n_k, C_P) in microseconds (the paper's formula 8)."""
    return hmac_md5_operations_of_blocks(blocks) / mips


def is_counted(suite: Suite) -> bool:
    """Whether the paper has numbers for all that this suite does."""
    return suite.encryption in OPERATIONS_PER_BLOCK and suite.integrity in (None, "md5")


def operations(suite: Suite, size: npt.NDArray[np.int64], per_byte: float | None = None) -> npt.NDArray[np.float64]:
    """Operations for packets of each `size`: formulas 1, 2 and 7 added up, or `per_byte` for each byte.

    Raises:
        EspError: neither has a number.
    """
    if per_byte is not None:
        return np.asarray(size * per_byte, np.float64)
    if not is_counted(suite):
        raise EspError(
            "mips",
            f"how many operations {suite.name} takes is not known, the formulas are of des, 3des and md5; "
            f"give it with --operations {suite.name}=N, for each byte",
        )
    work = encryption_operations(suite.encryption, size)
    if suite.integrity is not None:
        work = work + hmac_md5_operations(size)
    return work.astype(np.float64)
