"""Against the numbers of Xenakis and Merakos, and counts by hand."""

import hashlib

import numpy as np
import pytest

from ikeanalyze.model.esp.algorithms import EspError, parse_suite
from ikeanalyze.model.esp.operations import (
    count_encryption_operations,
    count_hmac_md5_operations,
    count_operations,
    has_operation_counts,
)


def test_formulas_1_and_2_agree_with_the_paper():
    # 480 bytes are 60 blocks of 64 bits, 481 one more
    assert count_encryption_operations("des", 480) == 60 * 2697
    assert count_encryption_operations("3des", 480) == 60 * 8091
    assert count_encryption_operations("3des", 481) == 61 * 8091


def test_formulas_3_and_4_agree_with_the_paper():
    # 100 million operations a second are 100 in a microsecond
    assert count_encryption_operations("des", 480) / 100 == pytest.approx(1618.2)
    assert count_encryption_operations("3des", 480) / 100 == pytest.approx(4854.6)


def test_formula_7_follows_from_5_and_6():
    for size in range(40, 1501):
        padding = -(8 * size + 64) % 512
        blocks = (8 * size + padding + 64 + 512) // 512  # formula 5: message, padding, length, and the key's block
        assert count_hmac_md5_operations(size) == 32 + (2 + blocks) * 744  # formula 6
    assert hashlib.md5().block_size * 8 == 512


def test_formula_7_agrees_with_a_manual_computation():
    assert count_hmac_md5_operations(480) == 2264 + 744 * 8  # 3904 bits are 7.6 blocks
    assert count_hmac_md5_operations(56) == 2264 + 744  # 512 bits exactly: the formula has no padding


def test_formula_8_agrees_with_the_paper():
    # 480 bytes are 9 blocks
    assert count_hmac_md5_operations(480) / 100 == pytest.approx((32 + 11 * 744) / 100)


def test_a_suite_adds_up():
    sizes = np.array([64, 480])
    assert count_operations(parse_suite("3des-md5"), sizes).tolist() == [8 * 8091 + 2264 + 2 * 744, 60 * 8091 + 8216]
    assert count_operations(parse_suite("null-md5"), sizes).tolist() == [2264 + 2 * 744, 8216]
    assert count_operations(parse_suite("des"), sizes).tolist() == [8 * 2697, 60 * 2697]


def test_what_the_paper_does_not_count():
    assert not has_operation_counts(parse_suite("aes256gcm16"))
    assert not has_operation_counts(parse_suite("3des-sha256"))
    with pytest.raises(EspError, match=r"aes256gcm16 is unknown.*--operations aes256gcm16=N"):
        count_operations(parse_suite("aes256gcm16"), np.array([64]))
    assert count_operations(parse_suite("aes256gcm16"), np.array([64, 100]), 2.5).tolist() == [160, 250]
