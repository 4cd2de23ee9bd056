"""libreswan logs with `plutodebug=private`, and secret files of `tcpdump -E`, which are the same lines without the log's time in front:

    ikev2 I 0xSPIi 0xSPIr sha256:0xSK_ai aes128:0xSK_ei
    ikev2 R 0xSPIi 0xSPIr sha256:0xSK_ar aes128:0xSK_er

libreswan logs them once, when the IKE SA is established: keys of earlier epochs are not in its log. What else it lacks:
the salts of AES-GCM, AES-CCM, AES-CTR and ChaCha20-Poly1305, and of SK_ai and SK_ar all that is beyond 32 bytes.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from ikeanalyze.crypto.algorithms import ENCRYPTION, HMAC_SHA2_256_96, INTEGRITY
from ikeanalyze.keys.collector import KeyCollector, parse_hex
from ikeanalyze.keys.key_set import KeySet, Phase1Key
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
_LOGGED: Final = 32  # bytes of SK_ai and SK_ar that libreswan logs at most
_SPI: Final = 8


@dataclass(frozen=True, slots=True)
class _KeyLine:
    """One line."""

    line: int
    encryption: int  # transform ID
    integrity: int
    sk_e: bytes = field(repr=False)
    sk_a: bytes = field(repr=False)
    no_salt: bool
    cut: bool  # of SK_a there is but the beginning


class LibreswanReader:
    """Reads lines; gives what it finds to `findings` as pairs of lines become complete."""

    def __init__(self, findings: KeyCollector) -> None:
        self._findings = findings
        self._pending: dict[tuple[bytes, bytes], dict[str, _KeyLine]] = {}

    def feed(self, number: int, line: bytes) -> bool:
        """Read a line; whether it is one with keys, be they unusable."""
        match = _LINE.search(line)
        if match is None:
            if _ESP_SECRET.match(line):
                self._findings.warn(
                    number, "keys of ESP in tcpdump's form are not read; give them as Wireshark's esp_sa"
                )
                return True
            return False
        self._findings.add_format(SECRETS if not line[: match.start(1) - 4].strip(b" |\t") else LOG)
        version, role, *values = (value.decode("ascii", "replace") for value in match.groups())
        spi_i, spi_r = parse_hex(values[0]), parse_hex(values[1])
        if spi_i is None or spi_r is None or len(spi_i) != _SPI or len(spi_r) != _SPI:
            self._refuse(number, "the SPIs are not 8 bytes each in hexadecimal")
        elif version == "1":
            self._ikev1(number, role, spi_i, values[4], values[5])
        elif (direction := self._direction(number, *values[2:])) is not None:
            self._pair(spi_i, spi_r, role, direction)
        return True

    def finish(self) -> None:
        """Give what has one direction only."""
        for spis in list(self._pending):
            self._give(spis)

    def _direction(
        self, number: int, integrity_name: str, sk_a_text: str, encryption_name: str, sk_e_text: str
    ) -> _KeyLine | None:
        sk_a, sk_e = parse_hex(sk_a_text), parse_hex(sk_e_text)
        integrity = _INTEGRITY.get(integrity_name)
        encryption, size = _encryption(encryption_name)
        wrong = None
        if sk_a is None or sk_e is None:
            wrong = "a key is not whole bytes in hexadecimal"
        elif encryption is None or size is None:
            wrong = f'"{encryption_name}" is no encryption algorithm of libreswan'
        elif integrity is None:
            wrong = f'"{integrity_name}" is no integrity algorithm of libreswan'
        else:
            salt = ENCRYPTION[encryption].salt
            wanted = INTEGRITY[integrity].key if integrity in INTEGRITY else 0
            if len(sk_e) not in (size, size + salt):
                wrong = f"the key is {len(sk_e)} bytes long, that of {encryption_name} is {size}"
            elif len(sk_a) != wanted and not len(sk_a) == _LOGGED < wanted:
                wrong = f"the key is {len(sk_a)} bytes long, that of {integrity_name} is {wanted}"
            else:
                no_salt = salt > 0 and len(sk_e) == size
                return _KeyLine(number, encryption, integrity, sk_e, sk_a, no_salt, len(sk_a) < wanted)
        self._refuse(number, wrong)
        return None

    def _ikev1(self, number: int, role: str, cookie_i: bytes, encryption_name: str, text: str) -> None:
        """SKEYID_e, of which the key is the beginning if it is long enough (RFC 2409, appendix B)."""
        if role == "R":
            return  # IKEv1 has one key for both directions, and this line nothing
        skeyid_e = parse_hex(text)
        encryption, size = _encryption(encryption_name)
        if encryption is None or size is None or skeyid_e is None:
            self._refuse(number, "no key of IKEv1 that can be used")
        elif len(skeyid_e) < size:
            self._refuse(number, f"SKEYID_e has {len(skeyid_e)} bytes, and {encryption_name} needs more")
        else:
            self._findings.phase1.append(Phase1Key(self._findings.make_origin(number), cookie_i, skeyid_e[:size]))

    def _pair(self, spi_i: bytes, spi_r: bytes, role: str, direction: _KeyLine) -> None:
        pending = self._pending.setdefault((spi_i, spi_r), {})
        known = pending.get(role)
        if known is not None and (known.sk_e, known.sk_a) == (direction.sk_e, direction.sk_a):
            return
        other = next((direction for name, direction in pending.items() if name != role), None)
        fits = other is None or (other.encryption, other.integrity) == (
            direction.encryption,
            direction.integrity,
        )
        if known is not None or not fits:
            self._give((spi_i, spi_r))
            pending = self._pending.setdefault((spi_i, spi_r), {})
        pending[role] = direction
        if len(pending) == 2:
            self._give((spi_i, spi_r))

    def _give(self, spis: tuple[bytes, bytes]) -> None:
        pending = self._pending.pop(spis)
        i, r = pending.get("I"), pending.get("R")
        logged = i or r
        if logged is None:
            return
        if i is None or r is None:
            side, other = ("initiator", "responder") if r is None else ("responder", "initiator")
            self._findings.warn(
                logged.line, f"keys of the {side}'s messages only; those of the {other} will not be decrypted"
            )
        directions = list(pending.values())
        if any(direction.no_salt for direction in directions):
            self._findings.warn(
                logged.line,
                f"libreswan does not log the salt of {ENCRYPTION[logged.encryption].name}, and without it nothing can be "
                "decrypted. Take the other peer's keys if it is no libreswan, or test with AES-CBC",
            )
        cut = any(direction.cut for direction in directions)
        if cut:
            self._findings.warn(
                logged.line,
                f"libreswan logs {_LOGGED} bytes of the integrity keys only, and {INTEGRITY[logged.integrity].name} has "
                "more: ICVs will not be checked",
            )
        self._findings.key_sets.append(
            KeySet(
                origin=self._findings.make_origin(logged.line),
                spi_i=spis[0],
                spi_r=spis[1],
                encryption=logged.encryption,
                integrity=None if cut else logged.integrity,
                sk_ei=i.sk_e if i else b"",
                sk_er=r.sk_e if r else b"",
                sk_ai=i.sk_a if i and not cut else b"",
                sk_ar=r.sk_a if r and not cut else b"",
                unchecked_icv=INTEGRITY[logged.integrity].icv if cut else None,
                no_salt=any(direction.no_salt for direction in directions),
            )
        )

    def _refuse(self, number: int, why: str) -> None:
        self._findings.warn(number, f"{why}; line not used")


def _encryption(name: str) -> tuple[int | None, int | None]:
    """Transform ID and bytes of the key of an algorithm that is named with its key length in bits: aes_gcm_16256."""
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
