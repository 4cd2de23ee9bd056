"""Read libreswan logs with `plutodebug=private`, and secret files of `tcpdump -E`, which have no timestamps:

    ikev2 I 0xSPIi 0xSPIr sha256:0xSK_ai aes128:0xSK_ei
    ikev2 R 0xSPIi 0xSPIr sha256:0xSK_ar aes128:0xSK_er

libreswan logs them once, when the IKE SA is established. Its logs lack the keys of earlier epochs, the salts of
AES-GCM, AES-CCM, AES-CTR and ChaCha20-Poly1305, and all bytes of SK_ai and SK_ar after the first 32.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from ikeanalyze.crypto.algorithms import ENCRYPTION, HMAC_SHA2_256_96, INTEGRITY
from ikeanalyze.keys.collector import KeyCollector, parse_hex
from ikeanalyze.keys.key_set import KeySet, Phase1Key
from ikeanalyze.wire.header import SPI_BYTES
from ikeanalyze.wire.registries.ikev2_transforms import Encryption, Integrity

LOG: Final = "libreswan log"
SECRETS: Final = "tcpdump -E secrets"

_LINE: Final = re.compile(
    rb"(?:^|[\s|])ikev([12])\s+([IR])\s+(\S{1,40})\s+(\S{1,40})\s+(\w{1,40}):(\S{0,200})\s+(\w{1,40}):(\S{0,200})\s*$"
)
_ESP_SECRET: Final = re.compile(rb"\s*(?:0x)?[0-9a-fA-F]{1,8}@\S+\s+[\w-]+:\S+\s*$")

_ENCRYPTION: Final = {
    "3des": Encryption.TRIPLE_DES,
    "null": Encryption.NULL,
    "aes": Encryption.AES_CBC,
    "aes_ctr": Encryption.AES_CTR,
    "aes_gcm": Encryption.AES_GCM_8,
    "aes_gcm_8": Encryption.AES_GCM_8,
    "aes_gcm_12": Encryption.AES_GCM_12,
    "aes_gcm_16": Encryption.AES_GCM_16,
    "aes_ccm_8": Encryption.AES_CCM_8,
    "aes_ccm_12": Encryption.AES_CCM_12,
    "aes_ccm_16": Encryption.AES_CCM_16,
    "camellia": Encryption.CAMELLIA_CBC,
    "camellia_ctr": Encryption.CAMELLIA_CTR,
    "chacha20_poly1305": Encryption.CHACHA20_POLY1305,
}
_INTEGRITY: Final = {
    "md5": int(Integrity.HMAC_MD5_96),
    "sha1": int(Integrity.HMAC_SHA1_96),
    "sha256": int(Integrity.HMAC_SHA2_256_128),
    "sha256_96": HMAC_SHA2_256_96,
    "sha384": int(Integrity.HMAC_SHA2_384_192),
    "sha512": int(Integrity.HMAC_SHA2_512_256),
    "aes_xcbc": int(Integrity.AES_XCBC_96),
    "aes_cmac": int(Integrity.AES_CMAC_96),
    "none": int(Integrity.NONE),
}
_MAX_LOGGED_BYTES: Final = 32  # bytes of SK_ai and SK_ar that libreswan logs at most


@dataclass(frozen=True, slots=True)
class _KeyLine:
    """The keys of one direction."""

    line: int
    encryption: int  # transform ID
    integrity: int
    sk_e: bytes = field(repr=False)
    sk_a: bytes = field(repr=False)
    no_salt: bool
    cut: bool  # only the beginning of SK_a was logged


class LibreswanReader:
    """Reads lines and adds a key set to `collector` when both directions are complete."""

    #: Patterns of the beginning of lines, and of words in lines, that may have keys.
    LINE_PATTERN: Final = rb"(?:0x)?[0-9a-fA-F]{1,8}+@"
    WORD_PATTERN: Final = rb"ikev[12]\s+[IR]\s"

    def __init__(self, collector: KeyCollector) -> None:
        self._collector = collector
        self._pending: dict[tuple[bytes, bytes], dict[str, _KeyLine]] = {}

    def feed(self, number: int, line: bytes) -> bool:
        """Read a line; returns whether it has keys, usable or not."""
        match = _LINE.search(line)
        if match is None:
            if _ESP_SECRET.match(line):
                self._collector.warn(number, "ESP keys of tcpdump -E are not supported; use Wireshark's esp_sa table")
                return True
            return False
        self._collector.add_format(SECRETS if not line[: match.start(1) - 4].strip() else LOG)
        version, role, *values = (value.decode("ascii", "replace") for value in match.groups())
        spi_i, spi_r = parse_hex(values[0]), parse_hex(values[1])
        if spi_i is None or spi_r is None or len(spi_i) != SPI_BYTES or len(spi_r) != SPI_BYTES:
            self._refuse(number, "the SPIs are not 8 bytes each in hexadecimal")
        elif version == "1":
            self._add_ikev1_key(number, role, spi_i, values[4], values[5])
        elif (direction := self._parse_direction(number, *values[2:])) is not None:
            self._pair_directions(spi_i, spi_r, role, direction)
        return True

    def finish(self) -> None:
        """Add the key sets that have one direction only."""
        for spis in list(self._pending):
            self._add_key_set(spis)

    def _parse_direction(
        self, number: int, integrity_name: str, sk_a_text: str, encryption_name: str, sk_e_text: str
    ) -> _KeyLine | None:
        sk_a, sk_e = parse_hex(sk_a_text), parse_hex(sk_e_text)
        integrity = _INTEGRITY.get(integrity_name)
        encryption, size = _parse_encryption(encryption_name)
        if sk_a is None or sk_e is None:
            problem = "a key is not whole bytes in hexadecimal"
        elif encryption is None or size is None:
            problem = f'"{encryption_name}" is not an encryption algorithm of libreswan'
        elif integrity is None:
            problem = f'"{integrity_name}" is not an integrity algorithm of libreswan'
        else:
            salt = ENCRYPTION[encryption].salt
            expected = INTEGRITY[integrity].key if integrity in INTEGRITY else 0
            if len(sk_e) not in (size, size + salt):
                problem = f"the key has {len(sk_e)} bytes, but {encryption_name} takes {size}"
            elif len(sk_a) != expected and not len(sk_a) == _MAX_LOGGED_BYTES < expected:
                problem = f"the key has {len(sk_a)} bytes, but {integrity_name} takes {expected}"
            else:
                no_salt = salt > 0 and len(sk_e) == size
                return _KeyLine(number, encryption, integrity, sk_e, sk_a, no_salt, len(sk_a) < expected)
        self._refuse(number, problem)
        return None

    def _add_ikev1_key(self, number: int, role: str, cookie_i: bytes, encryption_name: str, text: str) -> None:
        """SKEYID_e, whose beginning is the key if it is long enough (RFC 2409, appendix B)."""
        if role == "R":
            return  # IKEv1 has one key for both directions, in the other line
        skeyid_e = parse_hex(text)
        encryption, size = _parse_encryption(encryption_name)
        if encryption is None or size is None or skeyid_e is None:
            self._refuse(number, "unusable IKEv1 key")
        elif len(skeyid_e) < size:
            self._refuse(number, f"SKEYID_e has {len(skeyid_e)} bytes, but {encryption_name} needs more")
        else:
            self._collector.phase1.append(Phase1Key(self._collector.make_origin(number), cookie_i, skeyid_e[:size]))

    def _pair_directions(self, spi_i: bytes, spi_r: bytes, role: str, direction: _KeyLine) -> None:
        pending = self._pending.setdefault((spi_i, spi_r), {})
        known = pending.get(role)
        if known is not None and (known.sk_e, known.sk_a) == (direction.sk_e, direction.sk_a):
            return
        other = next((direction for name, direction in pending.items() if name != role), None)
        algorithms = direction.encryption, direction.integrity
        if known is not None or (other is not None and (other.encryption, other.integrity) != algorithms):
            self._add_key_set((spi_i, spi_r))
            pending = self._pending.setdefault((spi_i, spi_r), {})
        pending[role] = direction
        if len(pending) == 2:
            self._add_key_set((spi_i, spi_r))

    def _add_key_set(self, spis: tuple[bytes, bytes]) -> None:
        pending = self._pending.pop(spis)
        i, r = pending.get("I"), pending.get("R")
        logged = i or r
        if logged is None:
            return
        if i is None or r is None:
            side, other = ("initiator", "responder") if r is None else ("responder", "initiator")
            self._collector.warn(
                logged.line, f"keys of the {side}'s messages only; messages of the {other} cannot be decrypted"
            )
        no_salt = any(direction.no_salt for direction in pending.values())
        if no_salt:
            self._collector.warn(
                logged.line,
                f"libreswan does not log the salt of {ENCRYPTION[logged.encryption].name}, without which nothing can "
                "be decrypted. Use the keys of the other peer if it is not libreswan, or test with AES-CBC",
            )
        cut = any(direction.cut for direction in pending.values())
        if cut:
            self._collector.warn(
                logged.line,
                f"libreswan logs {_MAX_LOGGED_BYTES} bytes of the integrity keys only, but "
                f"{INTEGRITY[logged.integrity].name} has more, so ICVs are not checked",
            )
        self._collector.key_sets.append(
            KeySet(
                origin=self._collector.make_origin(logged.line),
                spi_i=spis[0],
                spi_r=spis[1],
                encryption=logged.encryption,
                integrity=None if cut else logged.integrity,
                sk_ei=i.sk_e if i else b"",
                sk_er=r.sk_e if r else b"",
                sk_ai=i.sk_a if i and not cut else b"",
                sk_ar=r.sk_a if r and not cut else b"",
                unchecked_icv=INTEGRITY[logged.integrity].icv if cut else None,
                no_salt=no_salt,
            )
        )

    def _refuse(self, number: int, problem: str) -> None:
        self._collector.warn(number, f"{problem}; line not used")


def _parse_encryption(name: str) -> tuple[int | None, int | None]:
    """Transform ID and key bytes of a name such as aes_gcm_16256, which ends with the key length in bits."""
    bits = None
    if name not in _ENCRYPTION and name[-3:] in ("128", "192", "256"):
        name, bits = name[:-3], int(name[-3:])
    if name not in _ENCRYPTION:
        return None, None
    encryption = int(_ENCRYPTION[name])
    sizes = ENCRYPTION[encryption].key_sizes
    if bits is None:
        return encryption, sizes[0] if len(sizes) == 1 else None
    return encryption, bits // 8 if bits // 8 in sizes else None
