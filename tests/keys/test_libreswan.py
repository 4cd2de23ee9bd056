import re

import pytest

from ikeanalyze.keys.collector import KeyCollector
from ikeanalyze.keys.libreswan import LibreswanReader
from tests.keys.logs_of import LOGS, lines

SECRETS = (LOGS / "libreswan-4.10.secrets").read_bytes().splitlines()


def read(log) -> KeyCollector:
    findings = KeyCollector("x")
    reader = LibreswanReader(findings)
    for number, line in enumerate(log, 1):
        reader.feed(number, line)
    reader.finish()
    return findings


@pytest.mark.parametrize("side", "ir")
def test_keys_of_a_log_are_read(side):
    log = lines(f"libreswan-4.10-cbc.{side}")
    findings = read(log)
    (keys,) = findings.key_sets
    assert (keys.spi_i.hex(), keys.spi_r.hex()) == ("df28ac62d64e64aa", "f0002250a694d5b9")
    assert (keys.encryption, keys.integrity) == (12, 12)
    assert keys.sk_ei.hex() == "d50bf9f3f343c397b820cde1db8b0904"
    assert keys.sk_er.hex() == "27765fbd28affec68f07a73de7176961"
    assert keys.sk_ai.hex().startswith("4bbc3c1a")
    assert keys.sk_ar.hex().startswith("ecf50b77")
    assert b"ikev2 I" in log[keys.origin.line - 1]
    assert findings.formats == ["libreswan log"]
    assert findings.warnings == []


def test_secret_files_of_tcpdump_are_read():
    findings = read(SECRETS)
    assert findings.formats == ["tcpdump -E secrets"]
    assert [(keys.encryption, keys.integrity, keys.no_salt) for keys in findings.key_sets] == [
        (12, 12, False),
        (28, 0, True),
        (3, 2, False),
        (12, 5, False),
        (13, 12, True),
    ]
    assert [warning.line for warning in findings.warnings] == [3, 9]


def test_key_sets_without_a_salt_are_marked():
    findings = read(lines("libreswan-4.10-gcm.i"))
    (keys,) = findings.key_sets
    assert (keys.encryption, keys.integrity, keys.no_salt, len(keys.sk_ei)) == (20, 0, True, 32)
    assert "does not log the salt of AES-GCM-16" in findings.warnings[0].message


def test_a_salt_that_somebody_added():
    line = re.sub(rb"(poly1305256:0x\w+)", rb"\g<1>00112233", SECRETS[2])
    (keys,) = read([line]).key_sets
    assert not keys.no_salt
    assert keys.sk_ei.endswith(b"\x00\x11\x22\x33")


def test_long_integrity_keys_are_cut_by_libreswan():
    findings = read(lines("libreswan-4.10-sha512.i"))
    (keys,) = findings.key_sets
    assert (keys.encryption, keys.integrity, keys.unchecked_icv, keys.sk_ai) == (12, None, 32, b"")
    assert "32 bytes of the integrity keys" in findings.warnings[0].message


@pytest.mark.parametrize(("kept", "empty"), [(0, "sk_er"), (1, "sk_ei")])
def test_keys_of_one_direction_are_incomplete(kept, empty):
    findings = read(SECRETS[kept : kept + 1])
    (keys,) = findings.key_sets
    assert getattr(keys, empty) == b""
    assert len(keys.sk_ei + keys.sk_er) == 16
    assert "messages only" in findings.warnings[0].message


def test_repeated_lines_are_read_once():
    assert len(read([SECRETS[0], *SECRETS[:2]]).key_sets) == 1


def test_other_keys_of_the_same_ike_sa():
    later = [line.replace(b"aes128:0x", b"aes128:0xff")[:-2] for line in SECRETS[:2]]
    key_sets = read([*SECRETS[:2], *later]).key_sets
    assert [keys.sk_ei[0] for keys in key_sets] == [0xD5, 0xFF]


def test_directions_that_disagree():
    other = SECRETS[7].replace(b"0xe1534936bf9142be 0x0a6e706e7e038f39", b"0xdf28ac62d64e64aa 0xf0002250a694d5b9")
    key_sets = read([SECRETS[0], other]).key_sets
    assert [(keys.integrity, bool(keys.sk_ei), bool(keys.sk_er)) for keys in key_sets] == [
        (12, True, False),
        (5, False, True),
    ]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b"aes128:0x", b"aes256:0x", "has 16 bytes"),
        (b"aes128:0x", b"aes999:0x", "is not an encryption algorithm"),
        (b"aes128:0x", b"serpent128:0x", "is not an encryption algorithm"),
        (b"aes128:0x", b"aes:0x", "is not an encryption algorithm"),
        (b"sha256:0x", b"sha1:0x", "has 32 bytes"),
        (b"sha256:0x", b"whirlpool:0x", "is not an integrity algorithm"),
        (b"aes128:0x", b"aes128:0xz", "hexadecimal"),
        (b"0xdf28", b"0x28", "SPIs"),
    ],
)
def test_malformed_lines_are_reported(old, new, why):
    findings = read([SECRETS[0].replace(old, new)])
    assert findings.key_sets == []
    assert why in findings.warnings[0].message
    assert "d50bf9f3" not in findings.warnings[0].message


def test_ikev1_keys_are_cut_from_skeyid_e():
    """The key is the beginning of SKEYID_e (RFC 2409, appendix B), both by hand."""
    line = b"ikev1 %c 0x586cf36e19ac9cf2 0x6c55302ce8e32796 sha256: aes128:0x" + b"5a" * 32
    findings = read([line % b"I", line % b"R"])
    assert [(key.cookie_i.hex(), key.key) for key in findings.phase1] == [("586cf36e19ac9cf2", b"\x5a" * 16)]
    findings = read([line.replace(b"aes128", b"aes256")[:-2] % b"I"])
    assert findings.phase1 == []
    assert "needs more" in findings.warnings[0].message


def test_esp_secrets_are_read():
    findings = read([b"0x12345678@192.0.2.1 aes128-cbc-hmac96:0x00112233445566778899aabbccddeeff"])
    assert "esp_sa" in findings.warnings[0].message


@pytest.mark.parametrize("line", [b"", b"ikev2 I", b"ikev2 X 0x1 0x2 a:0x b:0x", b"user@host: x", b"ikev2=insist"])
def test_other_lines_are_ignored(line):
    findings = KeyCollector("x")
    assert not LibreswanReader(findings).feed(1, line)
    assert findings.warnings == []
