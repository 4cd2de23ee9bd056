"""Wireshark's key tables: ikev2_decryption_table (also written by strongSwan), ikev1_decryption_table and esp_sa.

The columns are separated by commas, names are in quotation marks, bytes are hexadecimal digits, comments begin with #:

    SPIi,SPIr,SK_ei,SK_er,"encryption",SK_ai,SK_ar,"integrity"
    cookie of the initiator,key
    "IPv4","source","destination","SPI","encryption","key","integrity","key"

In Wireshark, a later row of the same IKE SA replaces the one before. Here the rows are epochs, in their order:
save-keys writes one row after each key exchange (RFC 9370).

The names of algorithms are the same in all versions from 3.2 to 4.6; the newer names of esp_sa are those of 4.6.
"""

import re
from binascii import a2b_hex
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ikeanalyze.crypto import esp
from ikeanalyze.crypto.algorithms import ENCRYPTION, HMAC_SHA2_256_96, INTEGRITY
from ikeanalyze.keys.collector import KeyCollector, parse_hex
from ikeanalyze.keys.key_set import EspKey, KeySet, Origin, Phase1Key
from ikeanalyze.wire.header import SPI_BYTES
from ikeanalyze.wire.registries.ikev2_transforms import Encryption, Integrity

if TYPE_CHECKING:
    from ikeanalyze.keys.key_table import KeySetTable


class EncryptionName(Struct, frozen=True):
    """A value of the column "Encryption algorithm" of ikev2_decryption_table."""

    transform: int  # transform ID (type 1)
    key: int  # bytes of SK_ei and SK_er, including the salt
    aead: bool  # the table then requires "NONE [RFC4306]" as integrity algorithm


class IntegrityName(Struct, frozen=True):
    """A value of the column "Integrity algorithm" of ikev2_decryption_table."""

    transform: int | None  # transform ID (type 3); None: the ICV is not checked
    key: int  # bytes of SK_ai and SK_ar
    unchecked_icv: int | None = None  # bytes of an ICV that is not checked


def _list_encryption_names() -> dict[str, EncryptionName]:
    names = {
        "NULL [RFC2410]": EncryptionName(Encryption.NULL, 0, False),
        "3DES [RFC2451]": EncryptionName(Encryption.TRIPLE_DES, 24, False),
    }
    for bits in (128, 192, 256):
        size = bits // 8
        names[f"AES-CBC-{bits} [RFC3602]"] = EncryptionName(Encryption.AES_CBC, size, False)
        names[f"AES-CTR-{bits} [RFC5930]"] = EncryptionName(Encryption.AES_CTR, size + 4, False)
        for icv in (8, 12, 16):
            suffix = f"{bits} with {icv} octet ICV [RFC5282]"
            names[f"AES-GCM-{suffix}"] = EncryptionName(Encryption[f"AES_GCM_{icv}"], size + 4, True)
            names[f"AES-CCM-{suffix}"] = EncryptionName(Encryption[f"AES_CCM_{icv}"], size + 3, True)
    return names


def _list_integrity_names() -> dict[str, IntegrityName]:
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
IKE_ENCRYPTION: Final[Mapping[str, EncryptionName]] = _list_encryption_names()

#: Integrity algorithms of ikev2_decryption_table.
IKE_INTEGRITY: Final[Mapping[str, IntegrityName]] = _list_integrity_names()

#: Names that strongSwan 5.9.8 writes and Wireshark does not accept.
IKE_ENCRYPTION_MISNAMED: Final[Mapping[str, str]] = {"TripleDes-CBC": "3DES [RFC2451]"}

#: Encryption algorithms of esp_sa, and the allowed bytes of a key, including the salt; empty: any.
ESP_ENCRYPTION: Final[Mapping[str, tuple[int, ...]]] = {
    **{
        name: tuple(size + ENCRYPTION[transform].salt for size in ENCRYPTION[transform].key_sizes)
        for name, transform in esp.ESP_ENCRYPTION.items()
    },
    "NULL": (),
    "DES-CBC [RFC2405]": (8,),
    "CAST5-CBC [RFC2144]": (),
    "BLOWFISH-CBC [RFC2451]": (),
    "TWOFISH-CBC": (16, 24, 32),
}

#: Integrity algorithms of esp_sa, and the allowed bytes of a key; empty: any.
ESP_INTEGRITY: Final[Mapping[str, tuple[int, ...]]] = {
    **{name: (INTEGRITY[transform].key,) for name, transform in esp.ESP_INTEGRITY.items()},
    "NULL": (),
    "MAC-RIPEMD-160-96 [RFC2857]": (20,),
    **{f"ANY {bits} bit authentication [no checking]": () for bits in (64, 96, 128, 192, 256)},
}


IKEV2: Final = "Wireshark ikev2_decryption_table"
IKEV1: Final = "Wireshark ikev1_decryption_table"
ESP: Final = "Wireshark esp_sa"

_IKEV1_KEY_BYTES: Final = (8, 16, 24, 32)
_PROTOCOLS: Final = {"ipv4": "IPv4", "ipv6": "IPv6"}
#: A cell and the character that ends it; names are in quotation marks.
_CELL: Final = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^",#]*))\s*(,|#|$)')
#: A line with a row of ikev2_decryption_table as Wireshark writes it: files have tens of thousands of them.
_HEX_CELL: Final = rb'("?)([0-9A-Fa-f]*)\%d,'
_PLAIN_ROW: Final = re.compile(
    _HEX_CELL % 1 + _HEX_CELL % 3 + _HEX_CELL % 5 + _HEX_CELL % 7
    + rb'"([^"\\\n]*)",' + _HEX_CELL % 10 + _HEX_CELL % 12 + rb'"([^"\\\n]*)"[^\S\n]*(?:\n|\Z)'
)  # fmt: skip
#: The groups with the hexadecimal digits of both SPIs, SK_ei, SK_er, SK_ai and SK_ar.
_HEX_GROUPS: Final = (2, 4, 6, 8, 11, 13)
#: Rows that begin a table of rows that only differ in digits.
_MIN_TABLE_ROWS: Final = 512
#: Pairs of names whose algorithms are kept.
_MAX_CACHED_ALGORITHMS: Final = 64
_ESCAPED: Final = re.compile(r"\\(.)")
_DIGITS: Final = re.compile(r"[0-9A-Fa-f]{10}")
#: The beginning of a row: hexadecimal digits and a comma, or a protocol of esp_sa.
_ROW: Final = re.compile(r'\s*(?:"?(?:0[xX])?[0-9A-Fa-f]{8,40}"?\s*,|"(?i:ipv4|ipv6)"\s*,)')


class _InvalidRowError(Exception):
    """A row cannot be used; one clause without keys."""


def get_wireshark_encryption_name(transform: int, key: int) -> str | None:
    """Return Wireshark's name of an encryption algorithm with keys of `key` bytes, or None if it has none."""
    return next(
        (name for name, known in IKE_ENCRYPTION.items() if (known.transform, known.key) == (transform, key)), None
    )


def get_wireshark_integrity_name(transform: int | None, unchecked_icv: int | None) -> str | None:
    """Return Wireshark's name of an integrity algorithm or of an unchecked ICV, or None if it has none."""
    wanted = (transform, None) if unchecked_icv is None else (None, unchecked_icv)
    names = (name for name, known in IKE_INTEGRITY.items() if (known.transform, known.unchecked_icv) == wanted)
    return next(names, None)


class TableReader:
    """Reads the rows of any of the three tables into `collector`."""

    #: Pattern of the beginning of lines that may be rows.
    LINE_PATTERN: Final = rb'(?:"?(?:0[xX])?[0-9A-Fa-f]{8,40}+"?[^\S\n]*+,|"(?i:ipv4|ipv6)"[^\S\n]*+,)'

    def __init__(self, collector: KeyCollector) -> None:
        self._collector = collector

    def feed_plain_rows(self, data: bytes, position: int, number: int) -> tuple[int, int]:
        """Read the valid rows of ikev2_decryption_table, as Wireshark writes them, that follow a position.

        `number`: the number of the line there. Returns the position after them, and the number of rows.
        """
        count = next_try = 0
        while row := _PLAIN_ROW.match(data, position):
            if count >= next_try:
                table = self._read_equal_rows(data, row, number + count)
                next_try = count + _MIN_TABLE_ROWS
                if table is not None:
                    self._collector.add_table(table)
                    position, count = position + len(table) * len(row[0]), count + len(table)
                    continue
            keys = _parse_plain_row(self._collector.make_origin(number + count), row)
            if keys is None:
                break
            self._collector.key_sets.append(keys)
            position, count = row.end(), count + 1
        if count:
            self._collector.add_format(IKEV2)
        return position, count

    def _read_equal_rows(self, data: bytes, row: re.Match[bytes], number: int) -> "KeySetTable | None":
        """Read a row and those after it that differ from it in digits only; None if they are few, or it is invalid.

        `number`: the line number of the row.
        """
        # numpy, which this module loads, takes as long to load as thousands of rows to read
        fewest = 1 if self._collector.earlier else _MIN_TABLE_ROWS
        if row.start() + fewest * len(row[0]) > len(data) or not row[0].endswith(b"\n"):
            return None
        keys = _parse_plain_row(self._collector.make_origin(number), row)
        if keys is None:
            return None
        from ikeanalyze.keys.key_table import read_equal_rows

        return read_equal_rows(keys, data, row.span(), [row.span(group) for group in _HEX_GROUPS], fewest)

    def feed(self, number: int, line: str) -> bool:
        """Read a line; returns whether it is a row, valid or not. An invalid row is a warning."""
        if not _ROW.match(line):
            return False
        try:
            self._read_row(number, _split_columns(line))
        except _InvalidRowError as error:
            self._collector.warn(number, f"{error}; row not used")
        return True

    def _read_row(self, number: int, columns: list[str]) -> None:
        origin, count = self._collector.make_origin(number), len(columns)
        if columns[0].lower() in _PROTOCOLS:
            self._collector.esp.append(_parse_esp(origin, columns))
            self._collector.add_format(ESP)
        elif count == 2:
            if IKEV2 in self._collector.formats and IKEV1 not in self._collector.formats and len(columns[1]) == 16:
                raise _InvalidRowError("2 columns after rows with 8: it seems to be cut after SPIr")
            self._collector.phase1.append(_parse_ikev1(origin, columns))
            self._collector.add_format(IKEV1)
        elif count == 8:
            self._collector.key_sets.append(_parse_ikev2(origin, columns))
            self._collector.add_format(IKEV2)
        else:
            raise _InvalidRowError(f"{count} columns, but a Wireshark key table has 8 (IKEv2, ESP) or 2 (IKEv1)")


def _parse_plain_row(origin: Origin, row: re.Match[bytes]) -> KeySet | None:
    """The key set of a row as Wireshark writes it; None: `_parse_ikev2` finds what is wrong with it."""
    _, spi_i, _, spi_r, _, sk_ei, _, sk_er, encryption_name, _, sk_ai, _, sk_ar, integrity_name = row.groups()
    algorithms = _find_plain_algorithms(encryption_name, integrity_name)
    if algorithms is None:
        return None
    encryption, integrity = algorithms
    if (
        not len(spi_i) == len(spi_r) == 2 * SPI_BYTES
        or not len(sk_ei) == len(sk_er) == 2 * encryption.key
        or not len(sk_ai) == len(sk_ar) == 2 * integrity.key
    ):
        return None
    return KeySet(
        origin=origin,
        spi_i=a2b_hex(spi_i),
        spi_r=a2b_hex(spi_r),
        encryption=encryption.transform,
        integrity=integrity.transform,
        sk_ei=a2b_hex(sk_ei),
        sk_er=a2b_hex(sk_er),
        sk_ai=a2b_hex(sk_ai),
        sk_ar=a2b_hex(sk_ar),
        unchecked_icv=integrity.unchecked_icv,
    )


@lru_cache(maxsize=_MAX_CACHED_ALGORITHMS)
def _find_plain_algorithms(
    encryption_name: bytes, integrity_name: bytes
) -> tuple[EncryptionName, IntegrityName] | None:
    """The algorithms of these names; None: they are unknown, or do not go together."""
    encryption = IKE_ENCRYPTION.get(encryption_name.decode("utf-8", "replace"))
    integrity = IKE_INTEGRITY.get(integrity_name.decode("utf-8", "replace"))
    if encryption is None or integrity is None or (encryption.aead and integrity.transform != 0):
        return None
    return encryption, integrity


def _parse_ikev2(origin: Origin, columns: list[str]) -> KeySet:
    spi_i, spi_r, sk_ei, sk_er, encryption_name, sk_ai, sk_ar, integrity_name = columns
    texts = {"SPIi": spi_i, "SPIr": spi_r, "SK_ei": sk_ei, "SK_er": sk_er, "SK_ai": sk_ai, "SK_ar": sk_ar}
    values = {name: _parse_bytes(name, text) for name, text in texts.items()}
    encryption = IKE_ENCRYPTION.get(IKE_ENCRYPTION_MISNAMED.get(encryption_name, encryption_name))
    integrity = IKE_INTEGRITY.get(integrity_name)
    if encryption is None:
        raise _InvalidRowError(f"Wireshark has no encryption algorithm {_shorten(encryption_name)}")
    if integrity is None:
        raise _InvalidRowError(f"Wireshark has no integrity algorithm {_shorten(integrity_name)}")
    for name, value in values.items():
        size, algorithm = SPI_BYTES, ""
        if name.startswith("SK_e"):
            size, algorithm = encryption.key, f" with {_shorten(encryption_name)}"
        elif name.startswith("SK_a"):
            size, algorithm = integrity.key, f" with {_shorten(integrity_name)}"
        if len(value) != size:
            raise _InvalidRowError(f"{name} has {len(value)} bytes instead of {size}{algorithm}")
    if encryption.aead and integrity.transform != 0:
        raise _InvalidRowError(f'{_shorten(encryption_name)} requires "NONE [RFC4306]"')
    return KeySet(
        origin=origin,
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


def _parse_ikev1(origin: Origin, columns: list[str]) -> Phase1Key:
    cookie, key = parse_hex(columns[0]), parse_hex(columns[1])
    if cookie is None or len(cookie) != SPI_BYTES:
        raise _InvalidRowError("the initiator's cookie is not 8 bytes in hexadecimal")
    if not key:
        raise _InvalidRowError("the encryption key is not whole bytes in hexadecimal")
    if len(key) not in _IKEV1_KEY_BYTES:
        # also a row of IKEv2 of which no more than the SPIs are left
        raise _InvalidRowError(f"the encryption key has {len(key)} bytes, but ciphers of IKEv1 take 8, 16, 24 or 32")
    return Phase1Key(origin, cookie, key)


def _parse_esp(origin: Origin, columns: list[str]) -> EspKey:
    # Some versions of Wireshark have two more columns: the length of sequence numbers, and their upper half.
    if not 8 <= len(columns) <= 10:
        raise _InvalidRowError(f"{len(columns)} columns, but esp_sa has 8")
    protocol, source, destination, spi_text, encryption, key_text, integrity, mac_key_text = columns[:8]
    spi: int | None = None
    if spi_text != "*":
        octets = parse_hex(spi_text.removeprefix("0x").rjust(8, "0") if len(spi_text) < 10 else spi_text)
        if octets is None or len(octets) != 4:
            raise _InvalidRowError("the SPI is neither 4 bytes in hexadecimal nor *")
        spi = int.from_bytes(octets)
    keys = []
    for text, algorithm, key_sizes, kind in (
        (key_text, encryption, ESP_ENCRYPTION, "encryption"),
        (mac_key_text, integrity, ESP_INTEGRITY, "authentication"),
    ):
        if algorithm not in key_sizes:
            raise _InvalidRowError(f"Wireshark's esp_sa has no {kind} algorithm {_shorten(algorithm)}")
        key = _parse_bytes(f"the {kind} key", text)
        if key_sizes[algorithm] and len(key) not in key_sizes[algorithm]:
            allowed = ", ".join(map(str, key_sizes[algorithm]))
            raise _InvalidRowError(f"the {kind} key has {len(key)} bytes; {_shorten(algorithm)} takes {allowed}")
        keys.append(key)
    return EspKey(
        origin=origin,
        protocol=_PROTOCOLS[protocol.lower()],
        source=source,
        destination=destination,
        spi=spi,
        encryption=encryption,
        encryption_key=keys[0],
        integrity=integrity,
        integrity_key=keys[1],
    )


def _parse_bytes(name: str, text: str) -> bytes:
    value = parse_hex(text)
    if value is None:
        raise _InvalidRowError(f"{name} is not whole bytes in hexadecimal")
    return value


def _split_columns(line: str) -> list[str]:
    columns, position = [], 0
    while cell := _CELL.match(line, position):
        columns.append(cell[2].strip() if cell[1] is None else _ESCAPED.sub(r"\1", cell[1]))
        if cell[3] != ",":  # the end, or a comment
            return columns
        position = cell.end()
    raise _InvalidRowError("quotation marks that do not match")


def _shorten(name: str) -> str:
    """A name for a message. It may be a key in the wrong column: hexadecimal digits are not shown."""
    if _DIGITS.search(name):
        return "(hexadecimal digits)"
    return f'"{name}"' if len(name) <= 60 else f'"{name[:60]}..."'
