"""EAP and RADIUS: fields of the conversation stay, identities are mapped, everything else is overwritten."""

import struct

from ikeanalyze.sharing.anonymize.eap import rewrite_eap, rewrite_radius
from ikeanalyze.sharing.anonymize.pseudonyms import Pseudonyms
from tests.craft import radius
from tests.sharing.anonymize.copies import KEY

PSEUDONYMS = Pseudonyms(KEY)


def request(attributes):
    """An Access-Request (RFC 2865, 4.1), with an authenticator and no more than these attributes."""
    body = b"".join(bytes([kind, 2 + len(value)]) + value for kind, value in attributes)
    return struct.pack(">BBH", 1, 9, 20 + len(body)) + b"authenticator..." + body


def eap(code, data):
    return struct.pack(">BBH", code, 7, 4 + len(data)) + data


def test_identities_are_the_same_in_eap_and_radius():
    name = b"alice@example.org"
    mapped = rewrite_eap(eap(2, b"\1" + name), PSEUDONYMS)
    assert mapped[:5] == eap(2, b"\1" + name)[:5]
    packet = rewrite_radius(request([(1, name), *radius.eap_message(eap(2, b"\1" + name))]), PSEUDONYMS)
    assert packet.count(mapped[5:]) == 2
    assert b"alice" not in packet


def test_fields_of_methods_stay():
    """MD5: size of the value; TLS: flags and length; AKA: subtype and attributes; MSCHAPv2: operation; Nak: methods."""
    cases = {
        eap(1, b"\4\x10" + b"challenge16bytes" + b"server"): 6,
        eap(1, b"\x0d\xc0\0\0\4\0" + b"tls record"): 10,
        eap(2, b"\x1a\2\7\0\x3f\x31" + b"response" * 7): 10,
        eap(2, b"\x17\1\0\0" + b"\x0e\5\0\x10" + b"identity of 16 b"): 12,
    }
    for packet, kept in cases.items():
        mapped = rewrite_eap(packet, PSEUDONYMS)
        assert (len(mapped), mapped[:kept]) == (len(packet), packet[:kept])
        assert mapped[kept:] != packet[kept:]
    for packet in (eap(2, b"\3\x0d\x15"), eap(3, b""), eap(4, b"")):
        assert rewrite_eap(packet, PSEUDONYMS) == packet


def test_radius_keeps_services_and_maps_addresses():
    attributes = [(4, b"\xc0\0\2\1"), (61, b"\0\0\0\5"), (32, b"nas.example"), (26, b"\0\0\x01\x37\x10\x06key!")]
    packet = request(attributes)
    mapped = rewrite_radius(packet, PSEUDONYMS)
    assert len(mapped) == len(packet)
    assert mapped[:4] == packet[:4]
    assert mapped[4:20] != packet[4:20]  # the authenticator
    assert PSEUDONYMS.map_address(b"\xc0\0\2\1") in mapped
    assert b"\x3d\x06\0\0\0\5" in mapped  # NAS-Port-Type
    assert b"\0\0\x01\x37\x10\x06" in mapped  # Microsoft, MS-MPPE-Send-Key
    assert b"key!" not in mapped
    assert b"example" not in mapped


def test_truncated_packets_keep_their_size():
    packet = request(radius.eap_message(eap(2, b"\1alice")))
    for size in range(len(packet)):
        assert len(rewrite_radius(packet[:size], PSEUDONYMS)) == size
    for packet in (eap(1, b"\x17\1\0\0\x0e\5\0\x10abc"), eap(1, b"\xfe\0\0\1"), eap(1, b"\x1a")):
        for size in range(len(packet)):
            assert len(rewrite_eap(packet[:size], PSEUDONYMS)) == size
