import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.registries.vendor_ids import get_vendor_name


@pytest.mark.parametrize(
    ("vendor_id", "name"),
    [
        ("882fe56d6fd20dbc2251613b2ebe5beb", "strongSwan"),
        ("4a131c81070358455c5728f20e95452f", "NAT-T (RFC 3947)"),
        ("7d9419a65310ca6f2c179d9215529d56", "draft-ietf-ipsec-nat-t-ike-03"),
        ("cd60464335df21f87cfdb2fc68b6a448", "draft-ietf-ipsec-nat-t-ike-02"),
        ("90cb80913ebb696e086381b5ec427b1f", "draft-ietf-ipsec-nat-t-ike-02"),
        ("4485152d18b6bbcd0be8a8469579ddcc", "draft-ietf-ipsec-nat-t-ike-00"),
        ("8f8d83826d246b6fc7a8a6a428c11de8", "draft-ietf-ipsec-nat-t-ike-08"),
        ("4df37928e9fc4fd1b3262170d515c662", "draft-ietf-ipsec-nat-t-ike"),
        ("6105c422e76847e43f9684801292aecd", "draft-stenberg-ipsec-nat-traversal-02"),
        ("afcad71368a1f1c96b8696fc77570100", "DPD (RFC 3706)"),
        ("09002689dfd6b712", "XAuth"),
        ("12f5f28c457168a9702d9fe274cc0100", "Cisco Unity"),
        ("12f5f28c457168a9702d9fe274cc0204", "Cisco Unity"),
        ("1f07f70eaa6514d3b0fa96542a500400", "Cisco VPN 3000"),
        ("4048b7d56ebce88525e7de7f00d6c2d3", "FRAGMENTATION"),
        ("4048b7d56ebce88525e7de7f00d6c2d380000000", "FRAGMENTATION"),
        ("1e2b516905991c7d7c96fcbfb587e461", "MS NT5 ISAKMPOAKLEY"),
        ("1e2b516905991c7d7c96fcbfb587e46100000009", "MS NT5 ISAKMPOAKLEY v9"),
        ("fb1de3cdf341b7ea16b7e5be0855f120", "MS-Negotiation Discovery Capable"),
        ("26244d38eddb61b3172a36e3d0cfb819", "Vid-Initial-Contact"),
        ("7003cbc1097dbe9c2600ba6983bc8b35", "KAME/racoon"),
        ("ad2c0dd0b9c32083ccba25b8861ec455", "A GSS-API Authentication Method for IKE"),
        ("eb4b0d96276b4e220ad16221a7b2a5e6", "SSH Sentinel 1.4.1"),
        ("fbf47614984031fa8e3bb6198089b223", "SSH IPSEC Express 1.1.0"),
        ("89f7b760d86b012acf263382394d962f", "SSH IPSEC Express 4.1.1"),
        ("5d72925e55948a9661a7fc48fdec7ff9", "SSH QuickSec 1.1.0"),
        ("f4ed19e0c114eb516faaac0ee37daf2807b4381f00000001000013880000000000000000", "Check Point"),
        ("4f45486b7d44784d42676b5d", "FreeS/WAN 2.00"),
        ("4f4572696f5c77557f746249", "Openswan 2.3.0"),
        ("4f4540404040404040404040", "FreeS/WAN, Openswan or old Libreswan"),
        (b"OE-Libreswan-5.4".hex(), "Libreswan-5.4"),
        (b"OpenIKED-7.5".hex(), "OpenIKED-7.5"),
        (b"CISCO-DELETE-REASON".hex(), "Cisco Delete Reason"),
        (b"FLEXVPN-SUPPORTED".hex(), "Cisco FlexVPN"),
        (b"Some vendor's text".hex(), "Some vendor's text"),
        ("00" * 16, None),
        ("", None),
        (b"short".hex(), None),
    ],
)
def test_vendor_ids_have_names(vendor_id, name):
    assert get_vendor_name(bytes.fromhex(vendor_id)) == name


@given(st.binary(max_size=40))
def test_any_bytes_give_printable_text_or_nothing(data):
    name = get_vendor_name(data)
    assert name is None or name.isprintable()
