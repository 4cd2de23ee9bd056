"""Values of a charon log, in addition to keys, that verify key schedules and authentication."""

from dataclasses import dataclass, field
from typing import Literal

from ikeanalyze.keys.key_set import KeySet, Origin

Side = Literal["initiator", "responder"]


@dataclass(frozen=True, slots=True)
class LoggedIntAuth:
    """The authentication of one IKE_INTERMEDIATE message (RFC 9242, section 3.3.2)."""

    origin: Origin
    side: Side | None  # sender of the message; None: unknown
    message_id: int | None
    key_set: KeySet | None = field(repr=False)  # the one with `sk_p` as SK_pi or SK_pr; None: not in the log
    sk_p: bytes = field(repr=False)
    previous: bytes = field(repr=False)  # the same side's value of the exchange before; empty: first exchange
    value: bytes = field(repr=False)  # prf(sk_p, previous | authenticated octets of the message)


@dataclass(frozen=True, slots=True)
class LoggedAuth:
    """The inputs and the value of one side's AUTH payload (RFC 7296, section 2.15)."""

    origin: Origin
    side: Side | None  # sender of the AUTH payload; None: unknown
    method: str | None  # as logged: "pre-shared key", "EAP"; None: unknown, or a signature
    key_set: KeySet | None = field(repr=False)  # the last one of the IKE SA; None: not in the log
    sk_p: bytes = field(repr=False)  # SK_pi or SK_pr, after mixing in the PPK if any (RFC 8784)
    identity: bytes = field(repr=False)  # IDx': body of the ID payload
    octets: bytes = field(repr=False)  # message | nonce | prf(sk_p, IDx') and, after IKE_INTERMEDIATE, IntAuth
    secret: bytes | None = field(repr=False)  # the PSK, or the MSK of EAP; None: signed with a private key
    value: bytes | None = field(repr=False)  # prf(prf(secret, "Key Pad for IKEv2"), octets)


@dataclass(frozen=True, slots=True)
class PpkKeys:
    """SK_d, SK_pi and SK_pr after mixing in a post-quantum preshared key (RFC 8784, section 3)."""

    origin: Origin
    key_set: KeySet | None = field(repr=False)  # the keys before; None: not in the log
    ppk: bytes | None = field(repr=False)
    sk_d: bytes = field(repr=False)
    sk_pi: bytes = field(repr=False)
    sk_pr: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class LoggedMsk:
    """The MSK of an EAP method (RFC 3748)."""

    origin: Origin
    value: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class CharonLog:
    """All values of a log, each kind in the order of the log."""

    version: str | None  # of strongSwan; None: the log does not have the start of the daemon
    int_auths: tuple[LoggedIntAuth, ...]
    auths: tuple[LoggedAuth, ...]
    ppks: tuple[PpkKeys, ...]
    msks: tuple[LoggedMsk, ...]
