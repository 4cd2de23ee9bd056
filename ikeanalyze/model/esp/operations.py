"""Operations that a processor needs for a packet: formulas 1, 2 and 7 of Xenakis and Merakos, "IPsec-based end-to-end VPN
deployment over UMTS".

They cover DES, 3DES and HMAC-MD5, as functions of S_d, the size of the whole IP packet. The time in microseconds (formulas 3,
4 and 8) is the number of operations divided by the MIPS of the processor. For other algorithms the paper has no numbers; a
measured number can be given as operations per byte.
"""

from typing import Final, TypeVar

import numpy as np

from ikeanalyze.model.arrays import Float64Array, Int64Array
from ikeanalyze.model.esp.algorithms import EspCipherSuite, EspError

#: A size or a count, or many of them.
Counts = TypeVar("Counts", int, Int64Array)

#: Operations for a block of 64 bits: T_DES and T_3DES.
OPERATIONS_PER_BLOCK: Final = {"null": 0, "des": 2697, "3des": 8091}
#: Operations for a block of 512 bits: T_MD5, 720 and 24 more.
T_MD5: Final = 744


def count_encryption_operations(cipher: str, size: Counts) -> Counts:
    """U_DES(S_d) and U_3DES(S_d), for packets of `size` bytes (the paper's formulas 1 and 2)."""
    return -(-8 * size // 64) * OPERATIONS_PER_BLOCK[cipher]


def count_hmac_md5_operations(size: Counts) -> Counts:
    """U_HMAC-MD5(S_d) for packets of `size` bytes (the paper's formula 7).

    It is formula 6, 32 + (2 + n_k) · T_MD5, with the n_k blocks of formula 5, of which one is the key's. Where S_d is 56 above
    a multiple of 64, MD5 itself needs another block: its padding is at least one bit (RFC 1321, section 3.1), which the
    formula leaves out.
    """
    return 2264 + T_MD5 * -(-(8 * size + 64) // 512)


def has_operation_counts(suite: EspCipherSuite) -> bool:
    """Whether the paper has numbers for both algorithms of the suite."""
    return suite.encryption in OPERATIONS_PER_BLOCK and suite.integrity in (None, "md5")


def count_operations(suite: EspCipherSuite, size: Int64Array, per_byte: float | None = None) -> Float64Array:
    """Operations for packets of each `size`: the sum of formulas 1, 2 and 7, or `per_byte` times the size.

    Raises:
        EspError: the suite has no formula, and `per_byte` is not given.
    """
    if per_byte is not None:
        return np.asarray(size * per_byte, np.float64)
    if not has_operation_counts(suite):
        raise EspError(
            "mips",
            f"how many operations {suite.name} takes is not known, the formulas are of des, 3des and md5; "
            f"give it with --operations {suite.name}=N, for each byte",
        )
    work = count_encryption_operations(suite.encryption, size)
    if suite.integrity is not None:
        work = work + count_hmac_md5_operations(size)
    return work.astype(np.float64)
