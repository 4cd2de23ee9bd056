import pytest

from ikeanalyze.keys.collector import KeyCollector
from ikeanalyze.keys.wireshark import TableReader

K16, K20, K32 = "00112233445566778899aabbccddeeff", "11" * 20, "2f" * 32
SPIS = "904a132d2b087803,f2748b73dae9f971"
CBC, SHA1 = '"AES-CBC-128 [RFC3602]"', '"HMAC_SHA1_96 [RFC2404]"'


def read(*rows: str) -> KeyCollector:
    findings = KeyCollector("table")
    reader = TableReader(findings)
    for number, row in enumerate(rows, 1):
        assert reader.feed(number, row)
    return findings


def test_rows_of_ikev2_are_read():
    findings = read(f"{SPIS},{K16},{K16[::-1]},{CBC},{K20},{K20},{SHA1}")
    (keys,) = findings.key_sets
    assert (keys.spi_i.hex(), keys.spi_r.hex()) == tuple(SPIS.split(","))
    assert (keys.encryption, keys.integrity) == (12, 2)
    assert (keys.sk_ei.hex(), keys.sk_er.hex(), keys.sk_ai.hex(), keys.sk_ar.hex()) == (
        K16,
        K16[::-1],
        K20,
        K20,
    )
    assert keys.sk_d is None
    assert (keys.origin.path, keys.origin.line) == ("table", 1)
    assert findings.formats == ["Wireshark ikev2_decryption_table"]
    assert findings.warnings == []


def test_rows_of_one_ike_sa_are_all_kept_in_order():
    rows = [f'{SPIS},{n:072x},{n:072x},"AES-GCM-256 with 16 octet ICV [RFC5282]",,,"NONE [RFC4306]"' for n in range(3)]
    assert [int(keys.sk_ei.hex(), 16) for keys in read(*rows).key_sets] == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "size", "transform"),
    [
        ("NULL [RFC2410]", 0, 11),
        ("3DES [RFC2451]", 24, 3),
        ("TripleDes-CBC", 24, 3),  # as strongSwan 5.9.8 has it
        ("AES-CTR-192 [RFC5930]", 28, 13),
    ],
)
def test_algorithm_names_of_the_table_are_known(name, size, transform):
    key = "ab" * size
    (keys,) = read(f'{SPIS},{key},{key},"{name}",{K20},{K20},{SHA1}').key_sets
    assert (keys.encryption, len(keys.sk_ei)) == (transform, size)


@pytest.mark.parametrize(("bits", "icv", "transform"), [(128, 8, 18), (192, 12, 19), (256, 16, 20)])
def test_aead_rows_have_no_integrity_key(bits, icv, transform):
    key = "ab" * (bits // 8 + 4)
    (keys,) = read(f'{SPIS},{key},{key},"AES-GCM-{bits} with {icv} octet ICV [RFC5282]",,,"NONE [RFC4306]"').key_sets
    assert (keys.encryption, keys.integrity, keys.sk_ai) == (transform, 0, b"")


def test_an_icv_that_is_not_checked():
    (keys,) = read(f'{SPIS},{K16},{K16},{CBC},,,"ANY 192-bits of Authentication [No Checking]"').key_sets
    assert (keys.integrity, keys.unchecked_icv) == (None, 24)


@pytest.mark.parametrize(
    "row",
    [
        f"0x904A132D2B087803,0xF2748B73DAE9F971,0x{K16.upper()},{K16},{CBC},{K20},{K20},{SHA1}",
        f"  {SPIS} , {K16} , {K16} , {CBC} , {K20} , {K20} , {SHA1}  # mine",
        ",".join(f'"{cell}"' for cell in (*SPIS.split(","), K16, K16)) + f",{CBC},{K20},{K20},{SHA1}",
    ],
)
def test_spellings_of_other_versions_are_read(row):
    (keys,) = read(row).key_sets
    assert keys.spi_i.hex() == "904a132d2b087803"
    assert keys.sk_ei.hex() == K16


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (
            f"904a132d2b0878,{SPIS[17:]},{K16},{K16},{CBC},{K20},{K20},{SHA1}",
            "SPIi has 7 bytes instead of 8",
        ),
        (f"{SPIS},{K16}ab,{K16},{CBC},{K20},{K20},{SHA1}", "SK_ei has 17 bytes instead of 16"),
        (f"{SPIS},{K16},{K16[1:]},{CBC},{K20},{K20},{SHA1}", "SK_er is not whole bytes in hexadecimal"),
        (f"{SPIS},{K16},xyz,{CBC},{K20},{K20},{SHA1}", "SK_er is not whole bytes in hexadecimal"),
        (f"{SPIS},{K16},{K16},{CBC},{K20},{K32},{SHA1}", "SK_ar has 32 bytes instead of 20"),
        (f'{SPIS},{K16},{K16},"AES-CBC-512",{K20},{K20},{SHA1}', 'no encryption algorithm "AES-CBC-512"'),
        (f'{SPIS},{K16},{K16},{CBC},{K20},{K20},"HMAC"', 'no integrity algorithm "HMAC"'),
        (f"{SPIS},{K16},{K16},{K32},{K20},{K20},{SHA1}", "algorithm (hexadecimal digits)"),
        (f"{SPIS},{K16},{K16},{CBC},{K20},{K20}", "7 columns"),
        (f"{SPIS},{K16},{K16},{CBC},{K20},{K20},{SHA1},", "9 columns"),
        (f'{SPIS},{K16},{K16},"AES-CBC-128,{K20},{K20}', "quotation marks"),
        (
            f'{SPIS},{K20},{K20},"AES-GCM-128 with 16 octet ICV [RFC5282]",{K20},{K20},{SHA1}',
            'requires "NONE [RFC4306]"',
        ),
        ("904a132d2b087803,", "the encryption key is not"),
        ("904a132d2b0878,00ff", "cookie is not 8 bytes"),
        ("904a132d2b087803,00f", "the encryption key is not"),
    ],
)
def test_bad_rows_are_warnings_and_the_rest_is_used(row, why):
    findings = read(f"{SPIS},{K16},{K16},{CBC},{K20},{K20},{SHA1}", row, f"904a132d2b087803,{K16}")
    assert (len(findings.key_sets), len(findings.phase1)) == (1, 1)
    (warning,) = findings.warnings
    assert warning.line == 2
    assert why in warning.message
    for secret in (K16, K20, K32, K16[1:]):
        assert secret not in warning.message


def test_a_table_that_is_cut_anywhere():
    """What is left of a row of IKEv2 is no row of IKEv1, and no shorter key is taken for the whole one."""
    row = f"{SPIS},{K16},{K16[::-1]},{CBC},{K20},{K20},{SHA1}"
    for end in range(17, len(row)):
        findings = read(row, row[:end])
        assert (len(findings.key_sets), findings.phase1, len(findings.warnings)) == (1, [], 1)
    for end in range(17, 17 + 2 * 16):
        findings = read(f"586cf36e19ac9cf2,{K16}"[:end])
        assert findings.phase1 == [] or end == 17 + 2 * 8  # DES
        assert len(findings.phase1) + len(findings.warnings) == 1


def test_rows_of_ikev1_are_read():
    findings = read(f"586cf36e19ac9cf2,{K16}")
    assert [(key.cookie_i.hex(), key.key.hex()) for key in findings.phase1] == [("586cf36e19ac9cf2", K16)]
    assert findings.formats == ["Wireshark ikev1_decryption_table"]


def test_rows_of_esp_are_read():
    findings = read(
        f'"IPv4","192.0.2.1","192.0.2.2","0xd11ec4ee","AES-CBC [RFC3602]","0x{K16}","HMAC-SHA-1-96 [RFC2404]","0x{K20}"',
        f'"IPv6","*","2001:db8::1","*","AES-GCM [RFC4106]","0x{K20}","NULL",""',
        f'"ipv4","*","*","0x1","AES-GCM with 16 octet ICV [RFC4106]","{K20}","NULL","","64-bit","0"',
    )
    one, two, three = findings.esp
    assert (one.protocol, one.source, one.destination, one.spi) == (
        "IPv4",
        "192.0.2.1",
        "192.0.2.2",
        0xD11EC4EE,
    )
    assert (one.encryption, one.encryption_key.hex()) == ("AES-CBC [RFC3602]", K16)
    assert (one.integrity, one.integrity_key.hex()) == ("HMAC-SHA-1-96 [RFC2404]", K20)
    assert (two.protocol, two.spi, two.integrity_key) == ("IPv6", None, b"")
    assert (three.protocol, three.spi) == ("IPv4", 1)
    assert findings.warnings == []


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (f'"IPv4","*","*","*","AES-CBC [RFC3602]","0x{K20}","NULL",""', "has 20 bytes"),
        (f'"IPv4","*","*","*","AES","0x{K20}","NULL",""', 'no encryption algorithm "AES"'),
        (f'"IPv4","*","*","*","NULL","","SHA","0x{K20}"', 'no authentication algorithm "SHA"'),
        ('"IPv4","*","*","*","NULL","0xz","NULL",""', "not whole bytes"),
        ('"IPv4","*","*","0x123456789","NULL","","NULL",""', "the SPI is neither 4 bytes"),
        ('"IPv4","*","*","*"', "4 columns"),
    ],
)
def test_malformed_rows_of_esp_are_reported(row, why):
    findings = read(row)
    assert findings.esp == []
    assert why in findings.warnings[0].message


@pytest.mark.parametrize("line", ["", "# comment", "text, with commas", "09[IKE] <c|1> x", '"a","b"'])
def test_other_lines_are_reported(line):
    findings = KeyCollector("table")
    assert not TableReader(findings).feed(1, line)
    assert findings.warnings == []
