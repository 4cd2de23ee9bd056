from ikeanalyze.crypto.algorithms import IkeSuite, get_prf, get_suite
from ikeanalyze.wire.ikev2.proposals import Proposal, parse_sa

#: SA payloads by hand (RFC 7296, section 3.3): AES-CBC with 256 bits, PRF_HMAC_SHA2_384, AUTH_HMAC_SHA2_384_192;
#: AES-GCM-16 with 128 bits and PRF 99, which is not assigned.
CBC = "00000024010100030300000c0100000c800e01000300000802000006000000080300000d"
GCM = "0000001c010100020300000c01000014800e00800000000802000063"


def chosen(text: str) -> Proposal:
    return parse_sa(bytes.fromhex(text)).proposals[0]


def test_the_suite_of_a_block_cipher_has_an_integrity_algorithm():
    assert get_suite(chosen(CBC)) == IkeSuite(12, 256, 13)
    assert get_prf(chosen(CBC)).size == 48


def test_an_aead_cipher_and_an_unknown_prf():
    assert get_suite(chosen(GCM)) == IkeSuite(20, 128, 0)
    assert get_prf(chosen(GCM)) is None


def test_an_incomplete_proposal_has_no_suite():
    assert get_suite(None) is None
    assert get_prf(None) is None
    assert get_suite(chosen("00000010010100010000000802000006")) is None
