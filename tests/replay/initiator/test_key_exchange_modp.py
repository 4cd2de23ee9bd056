"""The primes by the formulas of RFC 3526, and as scapy has them."""

from decimal import Decimal, getcontext

import pytest

from ikeanalyze.replay.initiator.key_exchange import GENERATOR, PRIMES


def pi(digits: int) -> Decimal:
    """Chudnovsky's series."""
    getcontext().prec = digits + 10
    constant, number, multiple, linear, exponential, total = (
        426880 * Decimal(10005).sqrt(),
        0,
        1,
        13591409,
        1,
        Decimal(13591409),
    )
    while number < digits // 14 + 1:
        number += 1
        six = 12 * number - 6
        multiple = multiple * (six**3 - 16 * six) // number**3
        linear += 545140134
        exponential *= -262537412640768000
        total += Decimal(multiple * linear) / exponential
    return constant / total


@pytest.mark.parametrize(("method", "bits", "addend"), [(14, 2048, 124476), (15, 3072, 1690314), (16, 4096, 240904)])
def test_the_primes_follow_from_the_formulas(method, bits, addend):
    digits = int(pi(1300) * 2 ** (bits - 130))
    assert PRIMES[method] == 2**bits - 2 ** (bits - 64) - 1 + 2**64 * (digits + addend)


def test_the_primes_are_those_of_scapy():
    from scapy.layers.tls.crypto import groups

    for method, group in ((14, groups.modp2048), (15, groups.modp3072), (16, groups.modp4096)):
        assert (PRIMES[method], GENERATOR) == (group.m, group.g)
