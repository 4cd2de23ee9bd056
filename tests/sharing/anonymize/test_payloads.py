"""Payloads of IKEv2 and IKEv1: what stays, what is mapped, and what is overwritten. Bytes are made by hand."""

import hashlib
import socket
import struct

import pytest

from ikeanalyze.sharing.anonymize.payloads import MessageContext, SeenEndpoint, rewrite_chain, rewrite_payload
from ikeanalyze.sharing.anonymize.phase1_payloads import rewrite_phase1_payload
from ikeanalyze.sharing.anonymize.pseudonyms import Pseudonyms
from ikeanalyze.wire.registries.ikev2 import PayloadType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType
from tests.sharing.anonymize.copies import KEY

PSEUDONYMS = Pseudonyms(KEY)
HERE, THERE = (SeenEndpoint(socket.inet_aton(address), 500) for address in ("192.0.2.1", "192.0.2.2"))
SPIS = bytes(range(16))
CONTEXT = MessageContext(SPIS, HERE, THERE, PSEUDONYMS)


def nat_hash(address, port):
    return hashlib.sha1(SPIS + address + struct.pack(">H", port)).digest()


def notify(kind, data):
    return struct.pack(">BBH", 0, 0, kind) + data


def rewrite(kind, body):
    result = rewrite_payload(kind, body, CONTEXT)
    assert len(result) == len(body)
    return result


@pytest.mark.parametrize("kind", ["SA", "KE", "NONCE", "DELETE", "VENDOR_ID"])
def test_random_values_and_products_stay(kind):
    assert rewrite(PayloadType[kind], b"any content") == b"any content"


def test_nat_detection_hashes_fit_the_pseudonyms():
    """RFC 7296, 2.23: SHA-1 of both SPIs, address and port."""
    kind = NotifyType.NAT_DETECTION_SOURCE_IP
    for end in (HERE, THERE):
        expected = notify(kind, nat_hash(PSEUDONYMS.map_address(end.address), end.port))
        assert rewrite(PayloadType.NOTIFY, notify(kind, nat_hash(end.address, end.port))) == expected
    behind_nat = notify(kind, nat_hash(socket.inet_aton("10.0.0.1"), 500))
    changed = rewrite(PayloadType.NOTIFY, behind_nat)
    assert changed not in (behind_nat, expected)


def test_notify_data_are_kept_mapped_or_overwritten_by_type():
    for kind, data in ((NotifyType.INVALID_KE_PAYLOAD, b"\0\x1f"), (NotifyType.SIGNATURE_HASH_ALGORITHMS, b"\0\2\0\5")):
        assert rewrite(PayloadType.NOTIFY, notify(kind, data)) == notify(kind, data)
    cookie = notify(NotifyType.COOKIE, b"cookie with an address inside")
    assert b"cookie" not in rewrite(PayloadType.NOTIFY, cookie)
    assert rewrite(PayloadType.NOTIFY, cookie) == rewrite(PayloadType.NOTIFY, cookie)
    address = notify(NotifyType.ADDITIONAL_IP4_ADDRESS, HERE.address)
    assert rewrite(PayloadType.NOTIFY, address)[4:] == PSEUDONYMS.map_address(HERE.address)
    gateway = notify(NotifyType.REDIRECT, bytes([3, 10]) + b"gw.example")
    mapped = rewrite(PayloadType.NOTIFY, gateway)
    assert (mapped[:6], mapped[8:9]) == (gateway[:6], b".")
    assert b"example" not in mapped


@pytest.mark.parametrize(
    ("kind", "data", "kept"),
    [(2, b"gw.example.org", b"."), (3, b"user@example.org", b"@"), (11, b"key-id", b"")],
    ids=["FQDN", "mail address", "key ID"],
)
def test_identities_keep_their_type_and_separators(kind, data, kept):
    mapped = rewrite(PayloadType.IDI, bytes([kind, 0, 0, 0]) + data)
    assert mapped[:4] == bytes([kind, 0, 0, 0])
    assert b"example" not in mapped
    assert b"key" not in mapped
    assert kept in mapped
    assert rewrite(PayloadType.IDR, bytes([kind, 0, 0, 0]) + data) == mapped


def test_addresses_as_identities():
    assert rewrite(PayloadType.IDI, b"\1\0\0\0" + HERE.address)[4:] == PSEUDONYMS.map_address(HERE.address)


def selector(start, end, protocol=0):
    return struct.pack(">BBHHH", 7, protocol, 16, 0, 65535) + socket.inet_aton(start) + socket.inet_aton(end)


def test_traffic_selectors_keep_networks_and_their_order():
    body = b"\2\0\0\0" + selector("10.1.2.0", "10.1.2.255") + selector("0.0.0.0", "255.255.255.255", 17)
    mapped = rewrite(PayloadType.TSI, body)
    start, end = mapped[12:16], mapped[16:20]
    assert (start[3], end[3], start[:3]) == (0, 255, end[:3])
    assert start[:3] == PSEUDONYMS.map_address(socket.inet_aton("10.1.2.99"))[:3]
    assert mapped[20:] == body[20:]  # everything
    odd = rewrite(PayloadType.TSR, b"\1\0\0\0" + selector("10.0.0.1", "10.0.0.9"))
    assert odd[12:16] <= odd[16:20]


def test_addresses_and_domains_in_configuration_are_mapped():
    """INTERNAL_IP4_ADDRESS, _NETMASK, _SUBNET, INTERNAL_IP6_ADDRESS, INTERNAL_DNS_DOMAIN (RFC 7296, 3.15.1)."""
    values = [
        (1, socket.inet_aton("10.1.2.3")),
        (2, socket.inet_aton("255.255.255.0")),
        (13, socket.inet_aton("10.9.0.0") + socket.inet_aton("255.255.0.0")),
        (8, socket.inet_pton(socket.AF_INET6, "2001:db8::9") + b"\x40"),
        (25, b"intern.example"),
    ]
    body = b"\2\0\0\0" + b"".join(struct.pack(">HH", kind, len(value)) + value for kind, value in values)
    mapped = rewrite(PayloadType.CP, body)
    assert mapped[8:12] == PSEUDONYMS.map_address(values[0][1])
    assert mapped[16:20] == values[1][1]
    assert mapped[26:32] == bytes(2) + values[2][1][4:]  # of a network of 16 bits
    assert mapped[24:26] == PSEUDONYMS.map_address(socket.inet_aton("10.9.7.7"))[:2]
    assert mapped[36:52] == PSEUDONYMS.map_address(values[3][1][:16])
    assert mapped[52:53] == b"\x40"
    assert b"example" not in mapped


def test_auth_keeps_method_and_algorithm():
    """RFC 7427, 3: length and AlgorithmIdentifier before the signature."""
    body = bytes([14, 0, 0, 0, 4]) + b"algo" + b"signature"
    mapped = rewrite(PayloadType.AUTH, body)
    assert mapped[:9] == body[:9]
    assert b"signature" not in mapped


def test_hashes_of_authorities_are_mapped_one_by_one():
    first, second = b"a" * 20, b"b" * 20
    together = rewrite(PayloadType.CERTREQ, b"\4" + first + second)
    assert together == b"\4" + rewrite(PayloadType.CERTREQ, b"\4" + first)[1:] + PSEUDONYMS.map_bytes(second)


def test_unknown_and_truncated_payloads_are_overwritten():
    assert b"secret" not in rewrite(200, b"secret content")
    for kind in range(33, 55):
        for size in range(8):
            rewrite(kind, bytes(range(1, size + 1)))


def test_chains_keep_their_headers_and_overwrite_what_follows():
    chain = struct.pack(">BBH", 43, 0, 12) + b"nonce..." + struct.pack(">BBH", 0, 0, 10) + b"vendor" + b"trailing"
    mapped = rewrite_chain(chain, PayloadType.NONCE, CONTEXT, rewrite_payload)
    assert len(mapped) == len(chain)
    assert mapped[:22] == chain[:22]
    assert b"trailing" not in mapped


def test_identities_and_hashes_of_ikev1_are_rewritten():
    """Identification, hash of aggressive mode, and NAT-D with the negotiated hash (RFC 2408; RFC 3947, 3.2)."""

    def rewrite_v1(kind, body):
        result = rewrite_phase1_payload(kind, body, CONTEXT)
        assert len(result) == len(body)
        return result

    assert rewrite_v1(10, b"nonce") == b"nonce"
    assert rewrite_v1(5, b"\1\x11\1\xf4" + HERE.address) == b"\1\x11\1\xf4" + PSEUDONYMS.map_address(HERE.address)
    subnet = rewrite_v1(5, b"\4\0\0\0" + socket.inet_aton("10.1.2.0") + socket.inet_aton("255.255.255.0"))
    assert subnet[7:] == b"\0\xff\xff\xff\0"
    assert b"guess" not in rewrite_v1(8, b"guess my key from it")
    digest = hashlib.sha256(SPIS + HERE.address + b"\1\xf4").digest()
    mapped = hashlib.sha256(SPIS + PSEUDONYMS.map_address(HERE.address) + b"\1\xf4").digest()
    assert rewrite_v1(20, digest) == mapped
    for kind in range(1, 30):
        rewrite_v1(kind, b"\1\2\3")
