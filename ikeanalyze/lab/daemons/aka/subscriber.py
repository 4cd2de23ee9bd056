"""Subscribers of EAP-AKA."""

import secrets
from dataclasses import dataclass, field
from typing import Final

from ikeanalyze.crypto.aka.milenage import BLOCK_BYTES

#: IMSI of the test network 001/01.
_IMSI: Final = "001010000000001"
#: Prefix of permanent identities of EAP-AKA (RFC 4187, section 4.1.1.6).
_PERMANENT_IDENTITY: Final = "0"


@dataclass(frozen=True, slots=True)
class AkaSubscriber:
    """A subscriber."""

    imsi: str
    ki: bytes = field(repr=False)  # 16 bytes each
    opc: bytes = field(repr=False)

    @property
    def identity(self) -> str:
        """The permanent identity."""
        return f"{_PERMANENT_IDENTITY}{self.imsi}"


def make_subscriber() -> AkaSubscriber:
    """Make a subscriber with new keys."""
    return AkaSubscriber(_IMSI, secrets.token_bytes(BLOCK_BYTES), secrets.token_bytes(BLOCK_BYTES))
