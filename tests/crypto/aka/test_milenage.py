"""Milenage against the 20 test sets of 3GPP TS 35.208."""

from pathlib import Path

import pytest

from ikeanalyze.crypto.aka.milenage import Milenage, derive_opc, reveal_sqn

#: One set a line: K RAND SQN AMF OP OPc f1 f1* f2 f5 f3 f4 f5*.
SETS = [
    [bytes.fromhex(value) for value in line.split()]
    for line in (Path(__file__).parent / "ts_35_208.txt").read_text().splitlines()
]


@pytest.mark.parametrize("values", SETS, ids=range(1, len(SETS) + 1))
def test_the_test_sets_of_ts_35_208(values):
    ki, rand, sqn, amf, op, opc, mac_a, mac_s, res, ak, ck, ik, ak_star = values
    assert derive_opc(ki, op) == opc
    milenage = Milenage(ki, opc)
    assert milenage.compute_macs(rand, sqn, amf) == (mac_a, mac_s)
    vector = milenage.compute_vector(rand)
    assert (vector.res, vector.ck, vector.ik, vector.ak, vector.ak_star) == (res, ck, ik, ak, ak_star)


def test_autn_hides_the_sequence_number():
    """TS 33.102, section 6.3.2, with the values of test set 1: ff9bb4d0b607 ^ aa689c648370 = 55f328b43577."""
    ki, rand, sqn, amf, _, opc, mac_a, *_ = SETS[0]
    milenage = Milenage(ki, opc)
    autn = milenage.build_autn(rand, sqn, amf)
    assert autn.hex() == "55f328b43577" + "b9b9" + "4a9ffac354dfafb3"
    assert reveal_sqn(autn, milenage.compute_vector(rand)) == (sqn, amf, mac_a)


def test_secrets_stay_out_of_texts():
    ki, rand, *_, opc, _, _, res, _, _, _, _ = SETS[0]
    milenage = Milenage(ki, opc)
    text = repr(milenage) + repr(milenage.compute_vector(rand))
    assert not any(secret.hex() in text or repr(secret) in text for secret in (ki, opc, res))
