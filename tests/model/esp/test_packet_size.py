"""Sizes against the paper's numbers, packets of scapy's IPsec layer, and pings that real daemons protected."""

import logging

import pytest

from ikeanalyze.model.esp.algorithms import EspError, parse_suite
from ikeanalyze.model.esp.packet_size import (
    PAPER_SUITES,
    EspConfig,
    EspEncapsulation,
    EspMode,
    compute_packet_size,
    compute_paper_ratio,
    compute_paper_size,
    compute_payload_bounds,
    compute_wire_bytes,
    find_largest_payload,
    validate_config,
)
from tests.paths import LAB_CAPTURES

LAB = LAB_CAPTURES


def test_sizes_agree_with_figure_7_of_the_paper():
    # a clear packet of 64 bytes "reaches 84 and 96 bytes, depending on the security scenario"
    sizes = {name: compute_paper_size(name, 64) for name in PAPER_SUITES}
    assert sizes == {"null-md5": 96, "des": 84, "3des": 84, "des-md5": 96, "3des-md5": 96}


@pytest.mark.parametrize("clear", [40, 41, 42, 43, 50, 64, 479, 480, 1500])
def test_the_papers_formulas_in_their_short_form(clear):
    """The right-hand sides of formulas 9, 10 and 11, as they are printed."""

    def up(value, block):
        return (value + block - 1) // block * block

    assert compute_paper_size("des", clear) == compute_paper_size("3des", clear) == up(clear - 18, 8) + 36
    assert compute_paper_size("null-md5", clear) == up(clear - 18, 4) + 48
    assert compute_paper_size("des-md5", clear) == compute_paper_size("3des-md5", clear) == up(clear - 18, 8) + 48


def test_ratios_agree_with_the_paper():
    # formula 12, by hand: (480 - 20 - 20) / 480, / 500 and / 512
    assert compute_paper_ratio(None, 480) == pytest.approx(440 / 480)
    assert compute_paper_ratio("3des", 480) == pytest.approx(440 / 500)
    assert compute_paper_ratio("3des-md5", 480) == pytest.approx(440 / 512)


@pytest.mark.parametrize("clear", range(40, 400, 7))
def test_ours_is_the_papers_and_the_initialization_vector(clear):
    for name in PAPER_SUITES:
        form = EspConfig(parse_suite(name), EspMode.TRANSPORT, EspEncapsulation.UDP)
        iv = 0 if name == "null-md5" else 8  # RFC 2405 and RFC 2451
        assert compute_packet_size(form, clear).size == compute_paper_size(name, clear) + iv


SCAPY = {
    # cipher and integrity as scapy calls them, and bytes of their keys (with the salt)
    "aes256gcm16": ("AES-GCM", 36, "NULL", 0),
    "aes128ctr-sha1": ("AES-CTR", 20, "HMAC-SHA1-96", 20),
    "aes128ccm16": ("AES-CCM", 19, "NULL", 0),
    "chacha20poly1305": ("CHACHA20-POLY1305", 36, "NULL", 0),
    "aes128-sha256": ("AES-CBC", 16, "SHA2-256-128", 32),
    "aes256-sha384": ("AES-CBC", 32, "SHA2-384-192", 48),
    "aes256-sha512": ("AES-CBC", 32, "SHA2-512-256", 64),
    "3des-md5": ("3DES", 24, "HMAC-MD5-96", 16),
    "3des": ("3DES", 24, "NULL", 0),
    "null-sha1": ("NULL", 0, "HMAC-SHA1-96", 20),
    "aes128-aescmac": ("AES-CBC", 16, "AES-CMAC-96", 16),
}


@pytest.mark.parametrize("mode", EspMode)
# scapy has no UDP encapsulation in IPv6
@pytest.mark.parametrize(
    ("version", "carrier"), [(4, EspEncapsulation.NONE), (4, EspEncapsulation.UDP), (6, EspEncapsulation.NONE)]
)
@pytest.mark.parametrize("name", SCAPY)
def test_sizes_agree_with_scapy(name, carrier, version, mode):
    logging.getLogger("scapy").setLevel(logging.ERROR)
    from scapy.layers.inet import IP, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.ipsec import ESP, SecurityAssociation

    header = IP(src="192.0.2.1", dst="192.0.2.2") if version == 4 else IPv6(src="2001:db8::1", dst="2001:db8::2")
    cipher, key, integrity, integrity_key = SCAPY[name]
    association = SecurityAssociation(
        ESP,
        spi=1,
        crypt_algo=cipher,
        crypt_key=bytes(range(key)),
        auth_algo=integrity,
        auth_key=bytes(integrity_key),
        tunnel_header=header.copy() if mode is EspMode.TUNNEL else None,
        nat_t_header=UDP(sport=4500, dport=4500) if carrier is EspEncapsulation.UDP else None,
    )
    form = EspConfig(parse_suite(name), mode, carrier, version, version)
    for size in (0, 1, 13, 14, 15, 16, 17, 100, 1303):
        clear = header / UDP(sport=1, dport=2) / bytes(size)
        clear = header.__class__(bytes(clear))
        parts = compute_packet_size(form, len(clear))
        assert parts.size == len(association.encrypt(clear))
        added_up = parts.ip + parts.carrier + parts.esp + parts.iv + parts.payload
        assert added_up + parts.padding + parts.trailer + parts.icv == parts.size


@pytest.mark.parametrize(
    ("capture", "name"),
    [("nat", "aes256-sha256"), ("reauthenticate", "aes256-sha256"), ("followup", "aes256gcm16")],
)
def test_pings_between_real_daemons(tshark, capture, name):
    """Of strongSwan in tunnel mode over UDP: an ICMP echo has 20 + 8 + 16 bytes (ikeanalyze/lab/network/ping.py)."""
    done = tshark.run("-n", "-Y", "esp", "-T", "fields", "-e", "ip.len", capture=LAB / f"{capture}.pcapng")
    form = EspConfig(parse_suite(name), EspMode.TUNNEL, EspEncapsulation.UDP)
    assert [int(line) for line in done.lines] == [compute_packet_size(form, 44).size] * 2


def test_sizes_of_nested_headers_agree_with_a_manual_count():
    """By hand: 20 + (20 + 2) + 8 + 8 + ceil((100 + 2) / 4) * 4 + 16."""
    form = EspConfig(parse_suite("aes128gcm16"), EspMode.TUNNEL, EspEncapsulation.TCP, inner=6)
    parts = compute_packet_size(form, 100)
    assert (parts.size, parts.padding, parts.user) == (178, 2, 40)
    assert parts.ratio == pytest.approx(40 / 178)


@pytest.mark.parametrize("name", ["aes256gcm16", "aes128-sha256", "3des-md5", "null-sha1"])
@pytest.mark.parametrize("mode", EspMode)
@pytest.mark.parametrize("version", [4, 6])
def test_the_largest_payload_fits(name, mode, version):
    form = EspConfig(parse_suite(name), mode, EspEncapsulation.UDP, version, version)
    least = {4: 20, 6: 40}[version]
    for mtu in range(80, 200):
        fitting = [clear for clear in range(least, 200) if compute_wire_bytes(form, clear) <= mtu]
        assert find_largest_payload(form, mtu) == (max(fitting) if fitting else None)


def test_payload_sizes_have_bounds_by_the_padding():
    """88 bytes of a ping: 8 + 16 + 44 + 2 + 2 of padding + 16, and the least that has the same size."""
    least, most = compute_payload_bounds(parse_suite("aes256-sha256"), 1, 88)
    form = EspConfig(parse_suite("aes256-sha256"))
    assert least <= 44 <= most
    assert {compute_wire_bytes(form, clear) - 20 for clear in range(least, most + 1)} == {88}
    assert compute_wire_bytes(form, most + 1) - 20 != 88 != compute_wire_bytes(form, least - 1) - 20
    assert compute_payload_bounds(parse_suite("aes256-sha256"), 10, 880) == (10 * least, 10 * most)


@pytest.mark.parametrize("clear", [-1, 0, 19, 65536])
def test_impossible_sizes_are_rejected(clear):
    with pytest.raises(EspError, match="not the size of an IPv4 packet"):
        compute_packet_size(EspConfig(parse_suite("aes128gcm16")), clear)


def test_too_large_in_esp():
    with pytest.raises(EspError, match="65,535 bytes become 65,592"):
        compute_packet_size(EspConfig(parse_suite("aes128gcm16")), 65535)
    # payload and two bytes more fill 65,500, the multiple of 4 that has room for 40, 8, 8 and 16 around it
    six = EspConfig(parse_suite("aes128gcm16"), inner=6, outer=6)
    assert compute_packet_size(six, 65498).size == 65572
    assert find_largest_payload(six, 10**6) == 65498
    with pytest.raises(EspError, match="65,575 bytes become 65,652, more than the 65,575 bytes of an IPv6 packet"):
        compute_packet_size(six, 65575)
    with pytest.raises(EspError, match="IPv6 packet, 40 to 65575 bytes"):
        compute_packet_size(six, 65576)
    with pytest.raises(EspError, match="transport mode"):
        validate_config(EspConfig(parse_suite("aes128gcm16"), EspMode.TRANSPORT, inner=4, outer=6))
