"""Parse the algorithm names in strongSwan's logs: IKE:AES_CBC_128/HMAC_SHA2_256_128/PRF_HMAC_SHA2_256/ECP_256."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ikeanalyze.crypto.algorithms import ENCRYPTION, HMAC_SHA2_256_96, INTEGRITY
from ikeanalyze.wire.cursor import Cursor
from ikeanalyze.wire.registries.ikev2_transforms import Encryption, Integrity

#: Names of `Encryption`, and those of strongSwan that differ.
_ENCRYPTION: Final[Mapping[str, int]] = {
    **{member.name: int(member) for member in Encryption},
    "3DES_CBC": Encryption.TRIPLE_DES,
    "DES_CBC": Encryption.DES,
    "RC5_CBC": Encryption.RC5,
    "IDEA_CBC": Encryption.IDEA,
    "CAST_CBC": Encryption.CAST,
    "BLOWFISH_CBC": Encryption.BLOWFISH,
    "3IDEA": Encryption.TRIPLE_IDEA,
    "NULL_AES_GMAC": Encryption.NULL_AUTH_AES_GMAC,
}
_INTEGRITY: Final[Mapping[str, int]] = {
    **{member.name: int(member) for member in Integrity if member is not Integrity.NONE},
    "HMAC_SHA2_256_96": HMAC_SHA2_256_96,
}
_KEY_BITS: Final = ("_128", "_192", "_256")

#: A MODP group or a curve over a prime field, with the bits of its elements: MODP_2048_256, ECP_521, ECP_256_BP.
_GROUP: Final = re.compile(r"(?:MODP|ECP)_(\d{1,5})(?:_|$)")
#: Bytes of the shared secret of the other key exchange methods (RFC 8031; FIPS 203).
_SECRET_BYTES: Final[Mapping[str, int]] = {
    "CURVE_25519": 32,
    "CURVE_448": 56,
    "ML_KEM_512": 32,
    "ML_KEM_768": 32,
    "ML_KEM_1024": 32,
}


@dataclass(frozen=True, slots=True)
class LoggedProposal:
    """The negotiated algorithms of an IKE SA, without unknown names."""

    encryption: int | None  # transform ID (type 1)
    key_bits: int | None  # None: missing in the name, as for ciphers with one key size
    integrity: int | None  # transform ID (type 3); 0 with an AEAD cipher
    prf: str | None  # as logged: PRF_HMAC_SHA2_256
    additional: tuple[str, ...]  # methods of the additional key exchanges: ML_KEM_768

    def matches_key_lengths(self, sk_e: bytes, sk_a: bytes) -> bool:
        """Whether keys of these lengths fit these algorithms; True if the lengths are unknown."""
        if self.encryption is not None and (algorithm := ENCRYPTION.get(self.encryption)) is not None:
            size = algorithm.get_key_bytes(self.key_bits)
            if size is not None and size != len(sk_e):
                return False
        if self.integrity is None or self.integrity not in INTEGRITY:
            return self.integrity != Integrity.NONE or not sk_a
        return INTEGRITY[self.integrity].key == len(sk_a)

    def split_secrets(self, secrets: bytes) -> tuple[bytes, ...]:
        """Split the concatenated secrets of the additional key exchanges of a rekeying.

        Returns them undivided if their lengths are unknown.
        """
        if not secrets:
            return ()
        sizes = [get_shared_secret_size(method) or 0 for method in self.additional]
        if 0 in sizes or sum(sizes) != len(secrets):
            return (secrets,)
        return tuple(map(Cursor(secrets).read_bytes, sizes))


def get_shared_secret_size(method: str) -> int | None:
    """Return the bytes of the shared secret of a key exchange method: ECP_256, MODP_2048_256, ML_KEM_768."""
    group = _GROUP.match(method)
    return _SECRET_BYTES.get(method) if group is None else -(-int(group[1]) // 8)


def parse_proposal(text: str) -> LoggedProposal:
    """Parse a logged proposal, without the protocol prefix."""
    encryption = key_bits = integrity = prf = None
    additional = []
    for name in text.strip().split("/"):
        if name.startswith("PRF_"):
            prf = prf or name
        elif name[:2] == "KE" and name[2:3].isdigit() and name[3:4] == "_":
            additional.append(name[4:])
        elif name in _INTEGRITY:
            integrity = _INTEGRITY[name]
        elif name in _ENCRYPTION:
            encryption = _ENCRYPTION[name]
        elif name.endswith(_KEY_BITS) and name[:-4] in _ENCRYPTION:
            encryption, key_bits = _ENCRYPTION[name[:-4]], int(name[-3:])
    algorithm = None if encryption is None else ENCRYPTION.get(encryption)
    if integrity is None and algorithm is not None and algorithm.aead:
        integrity = int(Integrity.NONE)
    return LoggedProposal(encryption, key_bits, integrity, prf, tuple(additional))
