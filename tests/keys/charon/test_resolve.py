"""What the recorded logs do not have; the usual is in test_charon."""

import pytest

from ikeanalyze.keys.charon.model import (
    CharonLog,
    LoggedAuth,
    LoggedDerivation,
    LoggedPhase1Key,
    LoggedSa,
    PpkKeys,
)
from ikeanalyze.keys.charon.resolve import LogRecords, resolve_records
from ikeanalyze.keys.collector import KeyCollector
from ikeanalyze.keys.key_set import Origin

KEYS = {"sk_d": b"d" * 32, "sk_ai": b"a" * 32, "sk_ar": b"b" * 32, "sk_ei": b"e" * 16, "sk_er": b"f" * 16}
PROPOSAL = "AES_CBC_128/HMAC_SHA2_256_128/PRF_HMAC_SHA2_256/ECP_256"
I_SPI, R_SPI = b"\x11" * 8, b"\x22" * 8


def header(spi_i: bytes, spi_r: bytes) -> bytes:
    """Of IKE_SA_INIT's response."""
    return spi_i + spi_r + bytes.fromhex("21202220 00000000 00000140")


def finish(records: LogRecords):
    findings = KeyCollector("x")
    resolve_records(records, findings)
    return findings, records.log


def signed(sk_p: bytes, octets: bytes) -> LoggedAuth:
    return LoggedAuth(Origin("x", 9), None, b"", sk_p, octets)


def test_what_is_signed_outweighs_what_stood_near():
    near = LoggedSa(spi_i=b"\x33" * 8, spi_r=b"\x44" * 8)
    one = LoggedDerivation(1, {**KEYS, "sk_pi": b"p" * 32, "sk_pr": b"q" * 32}, near)
    findings, log = finish(LogRecords([one], log=CharonLog(auths=[signed(b"q" * 32, header(I_SPI, R_SPI))])))
    (keys,) = findings.key_sets
    assert (keys.spi_i, keys.spi_r) == (I_SPI, R_SPI)
    assert (log.auths[0].side, log.auths[0].key_set) == ("responder", keys)


def test_an_initiators_first_message_has_no_responders_spi():
    one = LoggedDerivation(1, {**KEYS, "sk_pi": b"p" * 32}, LoggedSa())
    findings, _ = finish(LogRecords([one], log=CharonLog(auths=[signed(b"p" * 32, header(I_SPI, bytes(8)))])))
    assert findings.key_sets[0].spi_i is None


def test_two_ike_sas_taken_for_one():
    sa = LoggedSa(spi_i=I_SPI, spi_r=R_SPI)
    sets = [LoggedDerivation(n, {**KEYS, "sk_ei": bytes([n]) * 16, "sk_pr": bytes([n]) * 32}, sa) for n in (1, 2, 3)]
    auths = [signed(b"\1" * 32, header(I_SPI, R_SPI)), signed(b"\2" * 32, header(b"\x55" * 8, R_SPI))]
    findings, _ = finish(LogRecords(sets, log=CharonLog(auths=auths)))
    assert [keys.spi_i for keys in findings.key_sets] == [I_SPI, b"\x55" * 8, None]


def test_a_proposal_that_the_keys_do_not_fit_is_not_theirs():
    for text, expected in ((PROPOSAL, 12), (PROPOSAL.replace("128/H", "256/H"), None)):
        findings, _ = finish(LogRecords([LoggedDerivation(1, dict(KEYS), LoggedSa(proposal=text))]))
        assert findings.key_sets[0].encryption == expected


def test_a_proposal_by_spis():
    one = LoggedDerivation(1, dict(KEYS), LoggedSa(spi_i=I_SPI, spi_r=R_SPI))
    findings, _ = finish(LogRecords([one], proposals={(I_SPI, R_SPI): PROPOSAL}))
    assert (findings.key_sets[0].encryption, findings.key_sets[0].integrity) == (12, 12)


def test_null_encryption_has_empty_keys():
    values = {**KEYS, "sk_ei": b"", "sk_er": b""}
    findings, _ = finish(
        LogRecords([LoggedDerivation(1, values, LoggedSa(proposal="NULL/HMAC_SHA2_256_128/PRF_HMAC_SHA1/ECP_256"))])
    )
    (keys,) = findings.key_sets
    assert (keys.encryption, keys.integrity, keys.sk_ai) == (11, 12, b"a" * 32)


def test_cut_octets_say_nothing():
    one = LoggedDerivation(1, {**KEYS, "sk_pr": b"q" * 32}, LoggedSa())
    findings, log = finish(LogRecords([one], log=CharonLog(auths=[signed(b"q" * 32, header(I_SPI, R_SPI)[:20])])))
    assert findings.key_sets[0].spi_i is None
    assert log.auths[0].side is None


@pytest.mark.parametrize("own", ["sk_pi", "sk_pr"])
def test_a_ppk_belongs_to_the_ike_sa_whose_nonce_its_keys_signed(own):
    """Signed octets: IKE_SA_INIT message | nonce of the peer | ... (RFC 7296, section 2.15), without other SPIs."""
    ours, others = ([bytes([n]) * 24, bytes([n + 1]) * 32] for n in (1, 5))
    derived = [
        LoggedDerivation(n, {**KEYS, "sk_ei": bytes([n]) * 16, "nonces": b"".join(nonces)}, LoggedSa())
        for n, nonces in ((1, ours), (2, others))
    ]
    ppk = PpkKeys(Origin("x", 3), None, b"ppk", sk_d=b"D" * 32, sk_pi=b"P" * 32, sk_pr=b"Q" * 32)
    message = header(I_SPI, R_SPI) + b"m" * (0x140 - 28)
    peers_nonce = ours[1] if own == "sk_pi" else ours[0]
    auth = signed(getattr(ppk, own), message + peers_nonce + b"i" * 32)
    findings, log = finish(LogRecords(derived, log=CharonLog(auths=[auth], ppks=[ppk])))
    assert log.ppks[0].key_set is log.auths[0].key_set is findings.key_sets[0]


def test_ikev1_keys_that_are_logged_twice():
    records = LogRecords(phase1=[LoggedPhase1Key(n, b"k" * 16, LoggedSa(spi_i=I_SPI)) for n in (1, 2)])
    findings, _ = finish(records)
    assert [(key.cookie_i, key.origin.line) for key in findings.phase1] == [(I_SPI, 1)]
