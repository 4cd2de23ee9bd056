"""Processor operations per packet: formulas 1, 2 and 7 of Xenakis and Merakos, "IPsec-based end-to-end VPN deployment
over UMTS".

They cover DES, 3DES and HMAC-MD5, as functions of S_d, the size of the whole IP packet. The time in microseconds
(formulas 3, 4 and 8) is the number of operations divided by the MIPS of the processor. The paper does not cover other
algorithms; for those a measured number of operations per byte can be given.
"""

from typing import Final, TypeVar

import numpy as np

from ikeanalyze.model.arrays import Float64Array, Int64Array
from ikeanalyze.model.esp.algorithms import EspCipherSuite, EspError

#: A size or a count, or an array of them.
Counts = TypeVar("Counts", int, Int64Array)

#: Operations per block of 64 bits: T_DES and T_3DES.
OPERATIONS_PER_BLOCK: Final = {"null": 0, "des": 2697, "3des": 8091}
#: Operations per block of 512 bits: T_MD5 is 720 + 24.
T_MD5: Final = 744


def count_encryption_operations(cipher: str, size: Counts) -> Counts:
    """Return U_DES(S_d) or U_3DES(S_d) for packets of `size` bytes (the paper's formulas 1 and 2)."""
    return -(-8 * size // 64) * OPERATIONS_PER_BLOCK[cipher]


def count_hmac_md5_operations(size: Counts) -> Counts:
    """Return U_HMAC-MD5(S_d) for packets of `size` bytes (the paper's formula 7).

    This is formula 6, 32 + (2 + n_k) · T_MD5, with the n_k blocks of formula 5, including one for the key. The formula
    omits the padding bit of MD5 (RFC 1321, section 3.1), which needs another block if S_d is 56 above a multiple of 64.
    """
    return 2264 + T_MD5 * -(-(8 * size + 64) // 512)


def has_operation_counts(suite: EspCipherSuite) -> bool:
    """Whether the paper covers both algorithms of the suite."""
    return suite.encryption in OPERATIONS_PER_BLOCK and suite.integrity in (None, "md5")


def count_operations(suite: EspCipherSuite, size: Int64Array, per_byte: float | None = None) -> Float64Array:
    """Return the operations for packets of each `size`: the sum of formulas 1, 2 and 7, or `per_byte` times the size.

    Raises:
        EspError: no formula covers the suite, and `per_byte` is not given.
    """
    if per_byte is not None:
        return np.asarray(size * per_byte, np.float64)
    if not has_operation_counts(suite):
        raise EspError(
            "mips",
            f"the number of operations of {suite.name} is unknown, because the formulas cover only des, 3des and md5; "
            f"give the operations per byte with --operations {suite.name}=N",
        )
    integrity = 0 if suite.integrity is None else count_hmac_md5_operations(size)
    return np.asarray(count_encryption_operations(suite.encryption, size) + integrity, np.float64)
