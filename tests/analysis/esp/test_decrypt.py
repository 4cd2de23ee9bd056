"""Payload of ESP with keys: pings of real daemons, whose keys are in charon's log, and packets by scapy."""

import gzip
import json
import logging
import re
import struct

import pytest

from ikeanalyze.analysis.esp.traffic import read_esp_traffic
from ikeanalyze.keys.key_set import EspKey, Origin
from tests.craft import MS, Packet, link, pcap
from tests.paths import LAB_CAPTURES

LAB = LAB_CAPTURES
GCM = "AES-GCM with 16 octet ICV [RFC4106]"


def logged_keys(name):
    """What charon (chd = 4) wrote of its CHILD_SAs: bytes by "encryption initiator" and the like, the last ones."""
    text = gzip.decompress((LAB / f"{name}.initiator.log.gz").read_bytes()).decode()
    result = {}
    pattern = r"\] <[^>]*> (encryption|integrity) (initiator|responder) key => \d+ bytes[^\n]*\n((?:[^\n]*\d+: (?:[0-9A-F]{2} )+[^\n]*\n)+)"
    for kind, side, dump in re.findall(pattern, text):
        rows = [re.search(r"\d+: ((?:[0-9A-F]{2} )+)", line)[1] for line in dump.splitlines()]
        result[kind, side] = bytes.fromhex("".join(rows))
    return result


def key(encryption, secret, integrity="NULL", mac=b"", **more):
    where = {"protocol": "IPv6", "source": "*", "destination": "*", "spi": None, **more}
    named = {"encryption": encryption, "encryption_key": secret, "integrity": integrity, "integrity_key": mac}
    return EspKey(origin=Origin("x", 1), **where, **named)


@pytest.mark.parametrize("name", ["nat", "reauthenticate", "followup"])
def test_recorded_pings_are_decrypted_to_their_size(name):
    """An ICMP echo of 20 + 8 + 16 bytes each way."""
    logged = logged_keys(name)
    if name == "followup":
        keys = [key(GCM, logged["encryption", side]) for side in ("initiator", "responder")]
    else:
        keys = [
            key("AES-CBC [RFC3602]", logged["encryption", side], "HMAC-SHA-256-128 [RFC4868]", logged["integrity", side])
            for side in ("initiator", "responder")
        ]  # fmt: skip
    traffic = read_esp_traffic(str(LAB / f"{name}.pcapng"), keys=keys)
    assert len(traffic.sas) == 2
    for sa in traffic.sas:
        assert (sa.payload_stats.decrypted, sa.payload_stats.undecrypted) == (1, 0)
        assert (sa.payload_stats.payload_bytes, sa.payload_stats.padding_bytes, sa.payload_stats.hiding_bytes) == (
            44,
            2,
            0,
        )
        assert (dict(sa.payload_stats.sizes), dict(sa.payload_stats.protocols)) == ({44: 1}, {4: 1})


def protected(sizes, spi=7, secret=bytes(20), hiding=0):
    """Frames of scapy: UDP datagrams of so many bytes in IPv6 in tunnel mode."""
    logging.getLogger("scapy").setLevel(logging.ERROR)
    from scapy.layers.inet import UDP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.ipsec import ESP, SecurityAssociation

    outer = IPv6(src="2001:db8::1", dst="2001:db8::2")
    association = SecurityAssociation(ESP, spi=spi, crypt_algo="AES-GCM", crypt_key=secret, tunnel_header=outer)
    for size in sizes:
        clear = IPv6(src="fd00::1", dst="fd00::2") / UDP(sport=1, dport=2) / bytes(size - 48)
        if hiding:
            clear = IPv6(bytes(clear) + bytes(hiding))
        yield link.ethernet(bytes(association.encrypt(clear)))


def read(tmp_path, frames, keys, snaplen=262144):
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap([Packet(10**18 + n * MS, data) for n, data in enumerate(frames)], snaplen=snaplen))
    return read_esp_traffic(str(path), keys=keys)


def test_sizes_in_tunnel_mode(tmp_path):
    sizes = [60, 61, 62, 63, 1300]
    frames = list(protected(sizes))
    (sa,) = read(tmp_path, frames, [key(GCM, bytes(20))]).sas
    assert sa.payload_stats.payload_bytes == sum(sizes)
    # IPv6 40, Ethernet 14, SPI and sequence number 8, IV 8, trailer 2, ICV 16
    assert sa.bytes == sum(sizes) + sa.payload_stats.padding_bytes + 5 * 88
    assert sorted(sa.payload_stats.sizes) == sizes
    assert dict(sa.payload_stats.protocols) == {41: 5}


def test_padding_that_hides_sizes(tmp_path):
    (sa,) = read(tmp_path, protected([60, 100], hiding=40), [key(GCM, bytes(20))]).sas
    assert (sa.payload_stats.payload_bytes, sa.payload_stats.hiding_bytes) == (160, 80)


@pytest.mark.parametrize(
    "more",
    [
        {"spi": 7},
        {"source": "2001:db8::1"},
        {"destination": "2001:db8::2", "source": ""},
        {"source": "2001:0DB8:0:0::0001"},
        {"source": "2001:db8::*", "destination": "2001:*::2"},
        {"source": "2001:db8::/32", "destination": "2001:db*::2"},
    ],
)
def test_keys_match_by_addresses_and_spi(tmp_path, more):
    (sa,) = read(tmp_path, protected([60]), [key(GCM, bytes(20), **more)]).sas
    assert sa.payload_stats.decrypted == 1


@pytest.mark.parametrize(
    "more",
    [
        {"spi": 8},
        {"source": "2001:db8::2"},
        {"destination": "192.0.2.1"},
        {"destination": "192.0.2.*"},
        {"source": "2001:db8:*::2"},
    ],
)
def test_other_keys_do_not_match(tmp_path, more):
    (sa,) = read(tmp_path, protected([60]), [key(GCM, bytes(20), **more)]).sas
    assert sa.payload_stats is None or (sa.payload_stats.decrypted, sa.payload_stats.undecrypted) == (0, 1)


def test_wrong_and_several_keys(tmp_path):
    keys = [key(GCM, bytes([1] * 20)), key(GCM, bytes(20)), key("NULL", b"")]
    traffic = read(tmp_path, protected([60, 70]), keys)
    assert traffic.sas[0].payload_stats.decrypted == 2
    assert traffic.unusable_keys == ["x, line 1: NULL cannot be checked, so a wrong key would not be detected"]
    (sa,) = read(tmp_path, protected([60] * 30), keys[:1]).sas
    assert (sa.payload_stats.decrypted, sa.payload_stats.undecrypted) == (0, 30)


def test_extended_sequence_numbers_behind_2_to_the_32(tmp_path):
    """Packets by pyca/cryptography: two SAs with one key, and a packet out of order at the end of an ESN cycle."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    def frame(spi, number):
        clear = bytes(22) + bytes([0, 59])
        header = struct.pack(">I", spi) + struct.pack(">I", number % 2**32)
        encrypted = AESGCM(bytes(16)).encrypt(bytes(4) + header, clear, header[:4] + struct.pack(">Q", number))
        ip = struct.pack(
            ">BBHHHBBH4s4s",
            0x45,
            0,
            20 + 8 + 8 + len(encrypted),
            number % 65536,
            0,
            64,
            50,
            0,
            bytes([192, 0, 2, 1]),
            bytes([192, 0, 2, 2]),
        )
        return link.ethernet(ip + header + header + encrypted)

    end = 2**32
    first = [end - 2, end, end - 1, end + 1, 2 * end - 1, 2 * end, 3 * end + 5]
    second = [5, 6, 7, 8, 9, 10, 11]
    frames = [frame(7, item) for item in first] + [frame(8, item) for item in second]
    for order in (frames, [item for both in zip(frames[:7], frames[7:], strict=True) for item in both]):
        traffic = read(tmp_path, order, [key(GCM, bytes(20))])
        assert [(sa.spi, sa.payload_stats.decrypted, sa.payload_stats.undecrypted) for sa in traffic.sas] == [
            (7, 7, 0),
            (8, 7, 0),
        ]
    (sa,) = read(tmp_path, [frame(7, 4 * end + 5)], [key(GCM, bytes(20))]).sas
    assert sa.payload_stats.undecrypted == 1


def test_truncated_packets_are_not_decrypted(tmp_path):
    (sa,) = read(tmp_path, protected([60, 1000]), [key(GCM, bytes(20))], snaplen=300).sas
    assert (sa.payload_stats.decrypted, sa.payload_stats.undecrypted) == (1, 1)


def test_cut_packets_do_not_wear_patience_out(tmp_path):
    """No key was tried with them."""
    (sa,) = read(tmp_path, protected([1000] * 30 + [60]), [key(GCM, bytes(20))], snaplen=300).sas
    assert (sa.payload_stats.decrypted, sa.payload_stats.undecrypted) == (1, 30)


def in_ipv4(source, destination, spi):
    """A frame of scapy: a UDP datagram in tunnel mode."""
    logging.getLogger("scapy").setLevel(logging.ERROR)
    from scapy.layers.inet import IP, UDP
    from scapy.layers.ipsec import ESP, SecurityAssociation

    outer = IP(src=source, dst=destination)
    association = SecurityAssociation(ESP, spi=spi, crypt_algo="AES-GCM", crypt_key=bytes(20), tunnel_header=outer)
    clear = IP(src="198.51.100.1", dst="198.51.100.2") / UDP(sport=1, dport=2) / bytes(20)
    return link.ethernet(bytes(association.encrypt(clear)))


@pytest.mark.parametrize(
    ("source", "opened"),
    [("10.0.0.*", 1), ("10.*", 1), ("10.*.0.1", 1), ("10.0.0.0/8", 1), ("10.1.*.*", 0), ("10.0.0.*0", None)],
)
def test_addresses_of_keys_may_have_wildcards(tmp_path, source, opened):
    traffic = read(tmp_path, [in_ipv4("10.0.0.1", "10.0.0.2", 7)], [key(GCM, bytes(20), source=source)])
    (sa,) = traffic.sas
    assert sa.payload_stats.decrypted == (opened or 0)
    assert len(traffic.unusable_keys) == (opened is None)


def test_a_key_between_other_addresses_is_told_of(tmp_path):
    frames = [in_ipv4("10.0.0.1", "10.0.0.2", 7)]
    wrong = key(GCM, bytes(20), spi=7, source="10.0.0.3")
    assert read(tmp_path, frames, [wrong]).unusable_keys == [
        "x, line 1: the SPI 00000007 is in the capture, but not between these addresses (it is from 10.0.0.1 to 10.0.0.2)"
    ]
    right = key(GCM, bytes(20), spi=7, source="10.0.0.1")
    elsewhere = key(GCM, bytes(20), spi=8, source="10.0.0.3")
    assert not read(tmp_path, frames, [right, elsewhere]).unusable_keys


def test_from_the_command_line(tmp_path):
    from typer.testing import CliRunner

    from ikeanalyze.cli.app import app

    frames = list(protected([60, 70]))
    (tmp_path / "x.pcap").write_bytes(pcap([Packet(10**18 + n, data) for n, data in enumerate(frames)]))
    row = f'"IPv6","*","*","0x00000007","{GCM}","0x{bytes(20).hex()}","NULL",""\n'
    (tmp_path / "esp_sa").write_text(row)
    arguments = ["overhead", "measure", str(tmp_path / "x.pcap"), "--keys", str(tmp_path / "esp_sa")]
    done = CliRunner().invoke(app, [*arguments, "--format", "json"])
    (sa,) = json.loads(done.stdout)["measured"]["sas"]
    assert sa["inside"]["sizes"] == [{"bytes": 60, "packets": 1}, {"bytes": 70, "packets": 1}]
    assert (done.exit_code, done.stderr) == (0, "")
    table = CliRunner().invoke(app, arguments).stdout
    assert ["00000007", "2", "0", "130", "65.0", "2", "0", "0"] in [line.split() for line in table.splitlines()]


def test_packets_are_whole_from_the_spi_on(tmp_path):
    """What is handed on begins with the SPI."""
    from ikeanalyze.capture.esp import EspPacketFilter
    from ikeanalyze.capture.esp import read_esp as read_packets

    (frame,) = protected([60])
    (tmp_path / "x.pcap").write_bytes(pcap([Packet(10**18, frame)]))
    taken = []
    read_packets(
        str(tmp_path / "x.pcap"), lambda block: None, wanted=EspPacketFilter({7}, lambda *one: taken.append(one))
    )
    ((_, packet, addresses),) = taken
    assert packet == frame[54:]
    assert struct.unpack(">I", packet[:4]) == (7,)
    assert len(addresses) == 2
