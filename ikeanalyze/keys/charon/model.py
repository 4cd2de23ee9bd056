"""What a charon log has beside keys: the values with which a key schedule and an authentication can be checked."""

from dataclasses import dataclass, field
from typing import Literal

from ikeanalyze.keys.key_set import KeySet, Origin

Side = Literal["initiator", "responder"]


@dataclass(frozen=True, slots=True)
class LoggedIntAuth:
    """The authentication of one IKE_INTERMEDIATE message (RFC 9242, section 3.3.2)."""

    origin: Origin
    side: Side | None  # who sent the message; None: the log does not say
    message_id: int | None
    key_set: KeySet | None = field(repr=False)  # whose SK_pi or SK_pr `sk_p` is; None: of none in the log
    sk_p: bytes = field(repr=False)
    previous: bytes = field(repr=False)  # the same side's value of the exchange before; empty: there was none
    value: bytes = field(repr=False)  # prf(sk_p, previous | what is signed of the message)


@dataclass(frozen=True, slots=True)
class LoggedAuth:
    """What one side signs, or computes a MAC of, in IKE_AUTH (RFC 7296, section 2.15)."""

    origin: Origin
    side: Side | None  # whose AUTH payload it is; None: the log does not say
    method: str | None  # as the log has it: "pre-shared key", "EAP"; None: it does not say, or a signature
    key_set: KeySet | None = field(repr=False)  # the last one of the IKE SA; None: of none in the log
    sk_p: bytes = field(repr=False)  # with a PPK what is made of SK_pi or SK_pr and the PPK (RFC 8784)
    identity: bytes = field(repr=False)  # IDx': body of the ID payload
    octets: bytes = field(repr=False)  # message | nonce | prf(sk_p, IDx') and, after IKE_INTERMEDIATE, IntAuth
    secret: bytes | None = field(repr=False)  # the PSK, or the MSK of EAP; None: signed with a private key
    value: bytes | None = field(repr=False)  # prf(prf(secret, "Key Pad for IKEv2"), octets)


@dataclass(frozen=True, slots=True)
class PpkKeys:
    """What SK_d, SK_pi and SK_pr become with a post-quantum pre-shared key (RFC 8784, section 3)."""

    origin: Origin
    key_set: KeySet | None = field(repr=False)  # what they are made of; None: it is not in the log
    ppk: bytes | None = field(repr=False)
    sk_d: bytes = field(repr=False)
    sk_pi: bytes = field(repr=False)
    sk_pr: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class LoggedMsk:
    """The key that an EAP method gave (RFC 3748)."""

    origin: Origin
    value: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class CharonLog:
    """All of these, each kind in the order of the log."""

    version: str | None  # of strongSwan; None: the log begins later
    int_auths: tuple[LoggedIntAuth, ...]
    auths: tuple[LoggedAuth, ...]
    ppks: tuple[PpkKeys, ...]
    msks: tuple[LoggedMsk, ...]
