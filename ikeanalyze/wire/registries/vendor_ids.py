"""Names of products and extensions that vendor IDs announce.

No registry exists. Most vendor IDs are the MD5 digest of a text, as RFC 2408, section 3.16, proposes; some append data
to the digest, and some are the text itself. This module has those on which open implementations agree.
"""

import hashlib
from functools import cache
from typing import Final

#: Texts whose MD5 digest is the vendor ID, with the name to show (None: the text itself).
_DIGESTED: Final[dict[str, str | None]] = {
    "strongSwan": None,
    "KAME/racoon": None,
    "RFC 3947": "NAT-T (RFC 3947)",
    "draft-ietf-ipsec-nat-t-ike": None,
    **{f"draft-ietf-ipsec-nat-t-ike-0{version}": None for version in range(9)},
    "draft-ietf-ipsec-nat-t-ike-02\n": "draft-ietf-ipsec-nat-t-ike-02",
    "draft-stenberg-ipsec-nat-traversal-01": None,
    "draft-stenberg-ipsec-nat-traversal-02": None,
    "draft-huttunen-ipsec-esp-in-udp-00.txt": None,
    "ESPThruNAT": None,
    "RFC XXXX": "NAT-T (RFC XXXX)",
    "MS NT5 ISAKMPOAKLEY": None,
    "A GSS-API Authentication Method for IKE": None,
    "A GSS-API Authentication Method for IKE\n": "A GSS-API Authentication Method for IKE",
    "GSSAPI": None,
    "Vid-Initial-Contact": None,
    "MS-Negotiation Discovery Capable": None,
    "MS-MamieExists": None,
    "IKE CGA version 1": None,
    "FRAGMENTATION": None,
    "Fortinet Endpoint Control": None,
    "forticlient connect license": "Fortinet FortiClient connect license",
    "SSH Sentinel": None,
    **{f"SSH Sentinel {version}": None for version in ("1.1", "1.2", "1.3", "1.4", "1.4.1")},
    **{f"Ssh Communications Security IPSEC Express version {version}": f"SSH IPSEC Express {version}"
       for version in ("1.1.0", "1.1.1", "1.1.2", "1.2.1", "1.2.2")},
    **{f"SSH Communications Security IPSEC Express version {version}": f"SSH IPSEC Express {version}"
       for version in ("2.0.0", "2.1.0", "2.1.1", "2.1.2", "3.0.0", "3.0.1", "4.0.0", "4.0.1", "4.1.0",
                       "4.1.1", "4.2.0", "5.0", "5.0.0", "5.1.0", "5.1.1")},
    **{f"SSH Communications Security QuickSec {version}": f"SSH QuickSec {version}"
       for version in ("0.9.0", "1.1.0", "1.1.1", "1.1.2", "1.1.3")},
    "IKE Challenge/Response for Authenticated Cryptographic Keys": None,
    "IKE Challenge/Response for Authenticated Cryptographic Keys (Revised)": None,
}  # fmt: skip

#: Texts of FreeS/WAN with the name to show; the vendor ID is "OE" and ten bytes of the MD5 digest, made printable.
_FREESWAN: Final = {
    **{f"Linux FreeS/WAN 2.0{patch}": f"FreeS/WAN 2.0{patch}" for patch in range(7)},
    "Openswan 2.2.0": "Openswan 2.2.0",
    "Openswan 2.3.0": "Openswan 2.3.0",
    "Linux FreeS/WAN 2.00 PLUTO_SENDS_VENDORID": "FreeS/WAN 2.00",
    "Linux FreeS/WAN 2.00 X.509-1.3.1 PLUTO_SENDS_VENDORID": "FreeS/WAN 2.00 (X.509-1.3.1)",
    "Linux FreeS/WAN 2.00 X.509-1.3.1 LDAP PLUTO_SENDS_VENDORID": "FreeS/WAN 2.00 (X.509-1.3.1 + LDAP)",
    "Libreswan 2.2.0": "Libreswan 2.2.0",
}
_FREESWAN_BYTES: Final = 12
_DIGEST_BYTES: Final = 16

#: Vendor IDs that are the text itself, with the name to show.
_TEXTS: Final = {
    b"CISCO-DELETE-REASON": "Cisco Delete Reason",
    b"CISCO-DYNAMIC-ROUTE": "Cisco Dynamic Route",
    b"CISCOVPN-REV-02": "Cisco VPN rev. 02",
    b"FLEXVPN-SUPPORTED": "Cisco FlexVPN",
    b"IKEv2": "CAN-IKEv2",
    b"Opportunistic IPsec": "Opportunistic IPsec",
}

#: Minimum length of an unknown text that is shown.
_MIN_TEXT_BYTES: Final = 8

#: First bytes of vendor IDs that are followed by a version or the like.
_PREFIXES: Final = {
    bytes.fromhex("afcad71368a1f1c96b8696fc7757"): "DPD (RFC 3706)",
    bytes.fromhex("12f5f28c457168a9702d9fe274cc"): "Cisco Unity",
    bytes.fromhex("1f07f70eaa6514d3b0fa96542a50"): "Cisco VPN 3000",
    bytes.fromhex("09002689dfd6b712"): "XAuth",
    bytes.fromhex("3b9031dce4fcf88b489a923963dd0c49"): "DPDv1_NG",
    bytes.fromhex("f4ed19e0c114eb516faaac0ee37daf2807b4381f"): "Check Point",
    b"HeartBeat_Notify": "HeartBeat Notify",
    b"CISCO(COPYRIGHT)": "Cisco Copyright",
    bytes.fromhex("47bbe7c993f1fc13b4e6d0db565c68e5"): "SafeNet SoftRemote",
    bytes.fromhex("101fb0b35c5a4f4c08b919f1cb9777b0"): "NCP client",
    bytes.fromhex("f14b94b7bff1fef02773b8c49feded26"): "Shrew Soft client",
    bytes.fromhex("b858d1addd08c1e8adafea150608aa4497aa6cc8"): "ZyXEL ZyWALL Router",
    bytes.fromhex("f758f22668750f03b08df6ebe1d0"): "ZyXEL ZyWALL USG 100",
    bytes.fromhex("625027749d5ab97f5616c1602765cf480a3b7d0b"): "ZyXEL ZyWALL",
    bytes.fromhex("8404adf9cda05760b2ca292e4bff537b"): "Sidewinder",
    bytes.fromhex("08db45e6cb01f80bb576e9a78c0f54e1300b8881"): "ELVIS-PLUS Zastava",
    bytes.fromhex("404bf439522ca3f6"): "SonicWall",
    bytes.fromhex("424e4553000000"): "Nortel Contivity",
    b"Mac OSX 10.x": "Mac OS X",
    **{
        bytes.fromhex(prefix): "NetScreen"
        for prefix in (
            "299ee8289f40a8973bc78687e2e7226b532c3b76", "3a15e1f3cf2a63582e3ac82d1c64cbe3b6d779e7",
            "47d2b126bfcd83489760e2cf8c5d4d5a03497c15", "4a4340b543e02b84c88a8b96a8af9ebe77d9accc",
            "64405f46f03b7660a23be116a1975058e69e8387", "699369228741c6d4ca094c93e242c9de19e7b7c6",
            "8c0dc6cf62a0ef1b5c6eabd1b67ba69866adf16a", "92d27a9ecb31d99246986d3453d0c3d57a222a61",
            "9b096d9ac3275a7d6fe8b91c583111b09efed1a0", "bf03746108d746c904f1f3547de24f78479fed12",
            "c2e80500f4cc5fbf5daaeed3bb59abaeee56c652", "c8660a62b03b1b6130bf781608d32a6a8d0fb89f",
            "f885da40b1e7a9abd17655ec5bbec0f21f0ed52e", "2a2bcac19b8e91b426107807e02e7249569d6fd3",
            "166f932d55eb64d8e4df4fd37e2313f0d0fd8451", "a35bfd05ca1ac0b3d2f24e9e82bfcbff9c9e52b5",
        )
    },
}  # fmt: skip


def _md5(text: str) -> bytes:
    # the definition of these vendor IDs, not a security measure
    return hashlib.md5(text.encode(), usedforsecurity=False).digest()


@cache
def _compute_digests() -> dict[bytes, str]:
    names = {_md5(text): name or text for text, name in _DIGESTED.items()}
    for text, name in _FREESWAN.items():
        names[b"OE" + bytes(byte & 0x7F | 0x40 for byte in _md5(text)[: _FREESWAN_BYTES - 2])] = name
    return names


def get_vendor_name(vendor_id: bytes) -> str | None:
    """Name of the product or extension that a vendor ID announces, or its own text; None if it is unknown."""
    digests = _compute_digests()
    name = digests.get(vendor_id) or _TEXTS.get(vendor_id)
    if name is not None:
        return name
    for prefix, name in _PREFIXES.items():
        if vendor_id.startswith(prefix):
            return name
    if len(vendor_id) > _DIGEST_BYTES:
        # a digest followed by a version or capabilities
        name = digests.get(vendor_id[:_DIGEST_BYTES])
        if name == "MS NT5 ISAKMPOAKLEY":
            return f"{name} v{int.from_bytes(vendor_id[_DIGEST_BYTES : _DIGEST_BYTES + 4], 'big')}"
        if name is not None:
            return name
    text = vendor_id.decode("ascii", "replace")
    if not text.isascii() or not text.isprintable():
        return None
    if len(vendor_id) == _FREESWAN_BYTES and text.startswith("OE") and "-" not in text:
        return "FreeS/WAN, Openswan or old Libreswan"
    if len(vendor_id) == _FREESWAN_BYTES and text.startswith("OSW"):
        return "Openswan"
    # Libreswan's OE-Libreswan-5.4, OpenIKED's OpenIKED-7.5 and others
    return text.removeprefix("OE-") if len(text) >= _MIN_TEXT_BYTES else None
