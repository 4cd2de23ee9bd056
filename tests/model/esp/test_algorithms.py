import pytest

from ikeanalyze.model.esp.algorithms import CIPHERS, EspError, parse_suite


@pytest.mark.parametrize(
    ("name", "iv", "alignment", "icv"),
    [
        ("aes128gcm16", 8, 4, 16),  # RFC 4106, sections 3 and 6
        ("aes256gcm8", 8, 4, 8),
        ("aes256ccm12", 8, 4, 12),  # RFC 4309, sections 3.1 and 6
        ("chacha20poly1305", 8, 4, 16),  # RFC 7634, section 2
        ("aes256gcm16iiv", 0, 4, 16),  # RFC 8750: no explicit IV
        ("aes128-sha256", 16, 16, 16),  # RFC 3602, section 2.1; RFC 4868, section 2.6
        ("aes192-sha384", 16, 16, 24),
        ("aes256-sha512", 16, 16, 32),
        ("AES256-SHA1", 16, 16, 12),  # RFC 2404
        ("aes128ctr-aesxcbc", 8, 4, 12),  # RFC 3686, section 3.1; RFC 3566
        ("3des-sha1_160", 8, 8, 20),  # RFC 4595
        ("null-md5", 0, 4, 12),  # RFC 2410, RFC 2403
        ("aes128gmac", 8, 4, 16),  # RFC 4543
        ("camellia192ctr-sha1", 8, 4, 12),  # RFC 5529, section 2.1
        ("camellia256ccm12", 8, 4, 12),  # RFC 5529, section 2.2
        ("blowfish256-md5", 8, 8, 12),  # RFC 2451, section 2.3
        # strongSwan's proposal_keywords_static.txt
        ("aes256gcm128", 8, 4, 16),
        ("aes128gcm64", 8, 4, 8),
        ("camellia128ccm96", 8, 4, 12),
        ("aes-sha2_256", 16, 16, 16),
        ("aes128-sha2_256_96", 16, 16, 12),
        ("3des-sha", 8, 8, 12),
    ],
)
def test_algorithms_have_their_sizes(name, iv, alignment, icv):
    suite = parse_suite(name)
    assert (suite.name, suite.iv, suite.alignment, suite.icv) == (name.lower(), iv, alignment, icv)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("rot13", "unknown cipher 'rot13'"),
        ("sha256-aes128", "the cipher must come first"),
        ("aes128-crc32", "unknown integrity algorithm 'crc32'"),
        ("aes128gcm16-sha256", "has its own authentication"),
        ("null", "does not protect packets"),
        ("aes128-sha256-sha1", "is not CIPHER or CIPHER-INTEGRITY"),
        ("aes128-sha256-modp2048", "'modp2048' is a key exchange method and does not change sizes"),
        ("aes128gcm16-x25519", "'x25519' is a key exchange method"),
        ("aes128gcm16-ecp256-ke1_mlkem768", "'ecp256' is a key exchange method"),
        ("aes128gcm16-noesn", "'noesn' is for extended sequence numbers"),
        ("", "unknown cipher ''"),
    ],
)
def test_unknown_suites_are_rejected(name, what):
    with pytest.raises(EspError, match=what) as caught:
        parse_suite(name)
    assert caught.value.what == "suite"


def test_all_names_are_listed():
    with pytest.raises(EspError) as caught:
        parse_suite("x")
    listed = str(caught.value)
    for name in CIPHERS:
        assert name.replace("192", "128|192|256").replace("256", "128|192|256") in listed or any(
            name == form.replace("128|192|256", bits)
            for form in listed.replace(",", "").split()
            for bits in ("128", "192", "256")
        ), name
