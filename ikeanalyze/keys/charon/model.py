"""Contents of a charon log: key derivations, and values that verify key schedules and authentication.

`reader` fills the objects line by line. `resolve` adds at the end of the log which key set each value belongs to.
"""

from dataclasses import dataclass, field
from typing import Literal

from ikeanalyze.keys.key_set import KeySet, Origin
from ikeanalyze.wire.header import FLAG_INITIATOR, HEADER

Side = Literal["initiator", "responder"]
Spis = tuple[bytes, bytes]


@dataclass(slots=True, eq=False)
class LoggedSa:
    """The logged attributes of an IKE SA."""

    spi_i: bytes | None = None
    spi_r: bytes | None = None
    latest: str | None = None  # the last proposal selected under its number
    proposal: str | None = None  # the proposal of its keys
    child: int | None = None  # number of the IKE SA that replaces it; 0: ambiguous
    derived: int = 0  # number of key sets
    secret_size: int = 0  # bytes of its IKEv1 Diffie-Hellman secret

    @property
    def spis(self) -> Spis | None:
        """Both SPIs; None: unknown."""
        return None if self.spi_i is None or self.spi_r is None else (self.spi_i, self.spi_r)


@dataclass(slots=True, eq=False)
class LoggedDerivation:
    """A key derivation. The value of an incomplete dump is None; that of a missing dump is absent."""

    line: int
    values: dict[str, bytes | None] = field(default_factory=dict, repr=False)
    sa: LoggedSa | None = None
    bound: Spis | None = None  # SPIs proved by authenticated octets
    key_set: KeySet | None = field(default=None, repr=False)


@dataclass(slots=True, eq=False)
class LoggedPhase1Key:
    """An IKEv1 key."""

    line: int
    key: bytes = field(repr=False)
    sa: LoggedSa | None
    cookie_i: bytes | None = None


@dataclass(slots=True, eq=False)
class LoggedIntAuth:
    """The authentication of one IKE_INTERMEDIATE message (RFC 9242, section 3.3.2)."""

    origin: Origin
    previous: bytes = field(repr=False)  # the same side's value of the exchange before; empty: first exchange
    header: bytes = field(default=b"", repr=False)  # IKE header of the message
    sk_p: bytes = field(default=b"", repr=False)
    value: bytes = field(default=b"", repr=False)  # prf(sk_p, previous | authenticated octets of the message)
    sa: LoggedSa | None = None
    key_set: KeySet | None = field(
        default=None, repr=False
    )  # the one with `sk_p` as SK_pi or SK_pr; None: not in the log

    @property
    def side(self) -> Side | None:
        """Sender of the message; None: unknown."""
        return _find_sender(self.header)

    @property
    def message_id(self) -> int | None:
        """Message ID; None: unknown."""
        return HEADER.unpack(self.header)[6] if len(self.header) == HEADER.size else None


@dataclass(slots=True, eq=False)
class LoggedAuth:
    """The inputs and the value of one side's AUTH payload (RFC 7296, section 2.15)."""

    origin: Origin
    sa: LoggedSa | None
    identity: bytes = field(repr=False)  # IDx': body of the ID payload
    sk_p: bytes = field(repr=False)  # SK_pi or SK_pr, after mixing in the PPK if any (RFC 8784)
    octets: bytes = field(repr=False)  # message | nonce | prf(sk_p, IDx') and, after IKE_INTERMEDIATE, IntAuth
    method: str | None = None  # as logged: "pre-shared key", "EAP"; None: unknown, or a signature
    secret: bytes | None = field(
        default=None, repr=False
    )  # the PSK, or the MSK of EAP; None: signed with a private key
    value: bytes | None = field(default=None, repr=False)  # prf(prf(secret, "Key Pad for IKEv2"), octets)
    key_set: KeySet | None = field(default=None, repr=False)  # the last one of the IKE SA; None: not in the log

    @property
    def side(self) -> Side | None:
        """Sender of the AUTH payload; None: unknown."""
        return _find_sender(self.octets[: HEADER.size])


@dataclass(slots=True, eq=False)
class PpkKeys:
    """SK_d, SK_pi and SK_pr after mixing in a post-quantum preshared key (RFC 8784, section 3)."""

    origin: Origin
    sa: LoggedSa | None
    ppk: bytes | None = field(repr=False)
    sk_d: bytes = field(repr=False)
    sk_pi: bytes = field(repr=False)
    sk_pr: bytes = field(repr=False)
    key_set: KeySet | None = field(default=None, repr=False)  # the keys before; None: not in the log


@dataclass(slots=True)
class CharonLog:
    """The values of a log other than keys, each kind in the order of the log."""

    int_auths: list[LoggedIntAuth] = field(default_factory=list)
    auths: list[LoggedAuth] = field(default_factory=list)
    ppks: list[PpkKeys] = field(default_factory=list)
    msks: list[bytes] = field(default_factory=list, repr=False)  # of EAP methods (RFC 3748)


def _find_sender(header: bytes) -> Side | None:
    """The sender of a message, by the initiator flag of its IKE header."""
    if len(header) != HEADER.size:
        return None
    return "initiator" if HEADER.unpack(header)[5] & FLAG_INITIATOR else "responder"
