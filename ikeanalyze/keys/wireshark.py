"""Wireshark's key tables: ikev2_decryption_table, which is also what strongSwan's save-keys writes, ikev1_decryption_table and esp_sa.

Comma separated, names in quotation marks, bytes as hexadecimal digits, comments behind #:

    SPIi,SPIr,SK_ei,SK_er,"encryption",SK_ai,SK_ar,"integrity"
    cookie of the initiator,key
    "IPv4","source","destination","SPI","encryption","key","integrity","key"

Where Wireshark lets a later row of the same IKE SA replace the one before, the rows are epochs here, in their order:
save-keys writes one after each key exchange (RFC 9370).

Names of algorithms in Wireshark's key tables, and how many bytes a key of each has.

The same in all versions from 3.2 to 4.6. ESP's newer names are those of 4.6.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ikeanalyze.crypto.algorithms import HMAC_SHA2_256_96
from ikeanalyze.keys.collector import KeyCollector, parse_hex
from ikeanalyze.keys.key_set import EspKey, KeySet, Phase1Key
from ikeanalyze.wire.registries.ikev2_transforms import Encryption, Integrity


@dataclass(frozen=True, slots=True)
class EncryptionName:
    """A value of the column "Encryption algorithm"."""

    transform: int  # transform ID (type 1)
    key: int  # bytes of SK_ei and SK_er, with the salt
    aead: bool  # the table then wants no integrity algorithm


@dataclass(frozen=True, slots=True)
class IntegrityName:
    """A value of the column "Integrity algorithm"."""

    transform: int | None  # transform ID (type 3); None: there is an ICV that is not checked
    key: int  # bytes of SK_ai and SK_ar
    unchecked_icv: int | None = None  # bytes of the ICV that is not checked


def _encryption() -> dict[str, EncryptionName]:
    names = {
        "NULL [RFC2410]": EncryptionName(Encryption.NULL, 0, False),
        "3DES [RFC2451]": EncryptionName(Encryption.TRIPLE_DES, 24, False),
    }
    gcm = {8: Encryption.AES_GCM_8, 12: Encryption.AES_GCM_12, 16: Encryption.AES_GCM_16}
    ccm = {8: Encryption.AES_CCM_8, 12: Encryption.AES_CCM_12, 16: Encryption.AES_CCM_16}
    for bits in (128, 192, 256):
        size = bits // 8
        names[f"AES-CBC-{bits} [RFC3602]"] = EncryptionName(Encryption.AES_CBC, size, False)
        names[f"AES-CTR-{bits} [RFC5930]"] = EncryptionName(Encryption.AES_CTR, size + 4, False)
        for icv in (8, 12, 16):
            suffix = f"{bits} with {icv} octet ICV [RFC5282]"
            names[f"AES-GCM-{suffix}"] = EncryptionName(gcm[icv], size + 4, True)
            names[f"AES-CCM-{suffix}"] = EncryptionName(ccm[icv], size + 3, True)
    return names


def _integrity() -> dict[str, IntegrityName]:
    names = {
        "NONE [RFC4306]": IntegrityName(Integrity.NONE, 0),
        "HMAC_MD5_96 [RFC2403]": IntegrityName(Integrity.HMAC_MD5_96, 16),
        "HMAC_MD5_128 [RFC4595]": IntegrityName(Integrity.HMAC_MD5_128, 16),
        "HMAC_SHA1_96 [RFC2404]": IntegrityName(Integrity.HMAC_SHA1_96, 20),
        "HMAC_SHA1_160 [RFC4595]": IntegrityName(Integrity.HMAC_SHA1_160, 20),
        "HMAC_SHA2_256_96 [draft-ietf-ipsec-ciph-sha-256-00]": IntegrityName(HMAC_SHA2_256_96, 32),
        "HMAC_SHA2_256_128 [RFC4868]": IntegrityName(Integrity.HMAC_SHA2_256_128, 32),
        "HMAC_SHA2_384_192 [RFC4868]": IntegrityName(Integrity.HMAC_SHA2_384_192, 48),
        "HMAC_SHA2_512_256 [RFC4868]": IntegrityName(Integrity.HMAC_SHA2_512_256, 64),
    }
    for bits in (64, 96, 128, 160, 192, 256):
        names[f"ANY {bits}-bits of Authentication [No Checking]"] = IntegrityName(None, 0, bits // 8)
    return names


#: Encryption algorithms of ikev2_decryption_table.
IKE_ENCRYPTION: Final[Mapping[str, EncryptionName]] = MappingProxyType(_encryption())

#: Integrity algorithms of ikev2_decryption_table.
IKE_INTEGRITY: Final[Mapping[str, IntegrityName]] = MappingProxyType(_integrity())

#: What strongSwan 5.9.8 writes though Wireshark does not take it.
IKE_ENCRYPTION_MISNAMED: Final[Mapping[str, str]] = MappingProxyType({"TripleDes-CBC": "3DES [RFC2451]"})

#: Encryption algorithms of esp_sa, and the bytes that a key may have, a salt with them; none: any.
ESP_ENCRYPTION: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {
        "NULL": (),
        "TripleDES-CBC [RFC2451]": (24,),
        "TripleDes-CBC [RFC2451]": (24,),  # so in older versions
        "AES-CBC [RFC3602]": (16, 24, 32),
        "AES-CTR [RFC3686]": (20, 28, 36),
        "DES-CBC [RFC2405]": (8,),
        "CAST5-CBC [RFC2144]": (),
        "BLOWFISH-CBC [RFC2451]": (),
        "TWOFISH-CBC": (16, 24, 32),
        "AES-GCM [RFC4106]": (
            20,
            28,
            36,
        ),  # since 3.0 for old files only: it does not say how long the ICV is
        "AES-GCM with 8 octet ICV [RFC4106]": (20, 28, 36),
        "AES-GCM with 12 octet ICV [RFC4106]": (20, 28, 36),
        "AES-GCM with 16 octet ICV [RFC4106]": (20, 28, 36),
        "AES-GCM with IIV and 16 octet ICV [RFC4106 & RFC8750]": (20, 28, 36),
        "ChaCha20 with Poly1305 [RFC7634]": (36,),
        "ChaCha20 with Poly1305 and IIV [RFC7634 & RFC8750]": (36,),
    }
)

#: Integrity algorithms of esp_sa, and the bytes of a key; none: any.
ESP_INTEGRITY: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {
        "NULL": (),
        "HMAC-SHA-1-96 [RFC2404]": (20,),
        "HMAC-SHA-256-96 [draft-ietf-ipsec-ciph-sha-256-00]": (32,),
        "HMAC-SHA-256-128 [RFC4868]": (32,),
        "HMAC-SHA-384-192 [RFC4868]": (48,),
        "HMAC-SHA-512-256 [RFC4868]": (64,),
        "HMAC-MD5-96 [RFC2403]": (16,),
        "MAC-RIPEMD-160-96 [RFC2857]": (20,),
        **{f"ANY {bits} bit authentication [no checking]": () for bits in (64, 96, 128, 192, 256)},
    }
)


def get_wireshark_encryption_name(transform: int, key: int) -> str | None:
    """Wireshark's name of an encryption algorithm with keys of so many bytes; None: it knows no such."""
    for name, known in IKE_ENCRYPTION.items():
        if (known.transform, known.key) == (transform, key):
            return name
    return None


def get_wireshark_integrity_name(transform: int | None, unchecked_icv: int | None) -> str | None:
    """Wireshark's name of an integrity algorithm; None: it knows no such."""
    for name, known in IKE_INTEGRITY.items():
        if unchecked_icv is not None:
            if known.unchecked_icv == unchecked_icv:
                return name
        elif known.transform is not None and known.transform == transform:
            return name
    return None


pass

IKEV2: Final = "Wireshark ikev2_decryption_table"
IKEV1: Final = "Wireshark ikev1_decryption_table"
ESP: Final = "Wireshark esp_sa"

_PROTOCOLS: Final = {"ipv4": "IPv4", "ipv6": "IPv6"}
_SPI: Final = 8
#: A cell, and what ends it; names are in quotation marks.
_CELL: Final = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^",#]*))\s*(,|#|$)')
_ESCAPED: Final = re.compile(r"\\(.)")
_DIGITS: Final = re.compile(r"[0-9A-Fa-f]{10}")

#: What may be a row: hexadecimal digits and a comma, or a protocol of esp_sa. The rest is up to `TableReader.unread`.
_ROW: Final = re.compile(r'\s*(?:"?(?:0[xX])?[0-9A-Fa-f]{8,40}"?\s*,|"(?i:ipv4|ipv6)"\s*,)')


class TableReader:
    """Reads rows; gives what it finds to `findings`."""

    def __init__(self, findings: KeyCollector) -> None:
        self._findings = findings

    def feed(self, number: int, line: str) -> bool:
        """Read a line; whether it is a row, be it a bad one."""
        if not _ROW.match(line):
            return False
        self.row(number, line)
        return True

    def row(self, number: int, line: str) -> None:
        """Read a line of a table; a bad one is a warning."""
        columns = _columns(line)
        if columns is None:
            self._findings.warn(number, "quotation marks that do not match; row not used")
        elif columns[0].lower() in _PROTOCOLS:
            self._esp(number, columns)
        elif len(columns) == 2:
            self._ikev1(number, columns)
        elif len(columns) == 8:
            self._ikev2(number, columns)
        else:
            self._findings.warn(
                number,
                f"{len(columns)} columns; a row of a Wireshark key table has 8 (IKEv2, ESP) or 2 (IKEv1). Row not used",
            )

    def _ikev2(self, number: int, columns: list[str]) -> None:
        names = ("SPIi", "SPIr", "SK_ei", "SK_er", "", "SK_ai", "SK_ar", "")
        values: dict[str, bytes] = {}
        for name, text in zip(names, columns, strict=True):
            if name:
                value = parse_hex(text)
                if value is None:
                    self._refuse(number, f"{name} is not whole bytes in hexadecimal")
                    return
                values[name] = value
        encryption = IKE_ENCRYPTION.get(IKE_ENCRYPTION_MISNAMED.get(columns[4], columns[4]))
        integrity = IKE_INTEGRITY.get(columns[7])
        if encryption is None:
            self._refuse(number, f"no encryption algorithm of Wireshark has the name {_short(columns[4])}")
            return
        if integrity is None:
            self._refuse(number, f"no integrity algorithm of Wireshark has the name {_short(columns[7])}")
            return
        sizes = {
            "SPIi": _SPI,
            "SPIr": _SPI,
            "SK_ei": encryption.key,
            "SK_er": encryption.key,
            "SK_ai": integrity.key,
            "SK_ar": integrity.key,
        }
        for name, size in sizes.items():
            if len(values[name]) != size:
                algorithm = columns[4] if name.startswith("SK_e") else columns[7]
                of = "" if name.startswith("SPI") else f" with {_short(algorithm)}"
                self._refuse(number, f"{name} is {len(values[name])} bytes long and not {size}{of}")
                return
        if encryption.aead and integrity.transform != 0:
            self._refuse(number, f'{_short(columns[4])} goes with "NONE [RFC4306]" only')
            return
        self._findings.add_format(IKEV2)
        self._findings.key_sets.append(
            KeySet(
                origin=self._findings.make_origin(number),
                spi_i=values["SPIi"],
                spi_r=values["SPIr"],
                encryption=encryption.transform,
                integrity=integrity.transform,
                sk_ei=values["SK_ei"],
                sk_er=values["SK_er"],
                sk_ai=values["SK_ai"],
                sk_ar=values["SK_ar"],
                unchecked_icv=integrity.unchecked_icv,
            )
        )

    def _ikev1(self, number: int, columns: list[str]) -> None:
        cookie, key = parse_hex(columns[0]), parse_hex(columns[1])
        if cookie is None or len(cookie) != _SPI:
            self._refuse(number, "the initiator's cookie is not 8 bytes in hexadecimal")
        elif not key:
            self._refuse(number, "the encryption key is not whole bytes in hexadecimal")
        else:
            self._findings.add_format(IKEV1)
            self._findings.phase1.append(Phase1Key(self._findings.make_origin(number), cookie, key))

    def _esp(self, number: int, columns: list[str]) -> None:
        # Some versions of Wireshark have two more columns: how long sequence numbers are, and their high bits.
        if not 8 <= len(columns) <= 10:
            self._refuse(number, f"{len(columns)} columns; a row of esp_sa has 8")
            return
        protocol, source, destination, spi_text, encryption, key_text, integrity, mac_key_text = columns[:8]
        spi: int | None = None
        if spi_text != "*":
            octets = parse_hex(spi_text.removeprefix("0x").rjust(8, "0") if len(spi_text) < 10 else spi_text)
            if octets is None or len(octets) != 4:
                self._refuse(number, "the SPI is not 4 bytes in hexadecimal, nor *")
                return
            spi = int.from_bytes(octets)
        keys = []
        for text, algorithm, known, kind in (
            (key_text, encryption, ESP_ENCRYPTION, "encryption"),
            (mac_key_text, integrity, ESP_INTEGRITY, "authentication"),
        ):
            if algorithm not in known:
                self._refuse(number, f"no {kind} algorithm of Wireshark's esp_sa has the name {_short(algorithm)}")
                return
            key = parse_hex(text)
            if key is None:
                self._refuse(number, f"the {kind} key is not whole bytes in hexadecimal")
                return
            if known[algorithm] and len(key) not in known[algorithm]:
                sizes = ", ".join(map(str, known[algorithm]))
                self._refuse(number, f"the {kind} key is {len(key)} bytes long; {_short(algorithm)} takes {sizes}")
                return
            keys.append(key)
        self._findings.add_format(ESP)
        self._findings.esp.append(
            EspKey(
                origin=self._findings.make_origin(number),
                protocol=_PROTOCOLS[protocol.lower()],
                source=source,
                destination=destination,
                spi=spi,
                encryption=encryption,
                encryption_key=keys[0],
                integrity=integrity,
                integrity_key=keys[1],
            )
        )

    def _refuse(self, number: int, why: str) -> None:
        self._findings.warn(number, f"{why}; row not used")


def _columns(line: str) -> list[str] | None:
    """The columns of a row; None: its quotation marks do not match."""
    columns, position = [], 0
    while cell := _CELL.match(line, position):
        columns.append(cell[2].strip() if cell[1] is None else _ESCAPED.sub(r"\1", cell[1]))
        if cell[3] != ",":  # the end, or a comment
            return columns
        position = cell.end()
    return None


def _short(name: str) -> str:
    """A name for a message. It may be a key in the wrong column: what looks so is not shown."""
    if _DIGITS.search(name):
        return "(hexadecimal digits)"
    return f'"{name}"' if len(name) <= 60 else f'"{name[:60]}..."'
