"""Keys as they come out of files, whatever the file: one object per set, with where it stood.

No `repr` of these shows a secret: an exception or a log line that has one in it is harmless.
"""

from dataclasses import dataclass, field

from ikeanalyze.keys.schedule import MessageKeys


@dataclass(frozen=True, slots=True)
class Origin:
    """Where keys stand."""

    path: str  # of the file, as it was given
    line: int | None  # from 1; None: the format has no lines


@dataclass(frozen=True, slots=True)
class Derivation:
    """What a daemon logged of how it derived a key set (RFC 7296, sections 2.14 and 2.18; RFC 9370, 2.2.2)."""

    secret: bytes | None = field(repr=False)  # g^ir, or SK(n) of an additional key exchange
    additional: tuple[bytes, ...] = field(repr=False)  # more of a rekeying (RFC 9370, 2.2.4): SK(1)...
    nonces: bytes | None = field(repr=False)  # Ni | Nr
    skeyseed: bytes | None = field(repr=False)
    prf: str | None  # as the log names it: PRF_HMAC_SHA2_256


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySet(MessageKeys):
    """The SK_* of one epoch of an IKE SA (RFC 7296, section 2.14)."""

    origin: Origin
    spi_i: bytes | None  # 8 bytes; None: the file does not say for which IKE SA the keys are
    spi_r: bytes | None
    sk_d: bytes | None = field(repr=False, default=None)
    sk_pi: bytes | None = field(repr=False, default=None)
    sk_pr: bytes | None = field(repr=False, default=None)
    derivation: Derivation | None = None


@dataclass(frozen=True, slots=True)
class Phase1Key:
    """The encryption key of an IKEv1 IKE SA, as Wireshark has it: already of the cipher's length (RFC 2409, app. B)."""

    origin: Origin
    cookie_i: bytes  # 8 bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class EspKey:
    """The keys of one ESP SA, that is of one direction. Names are those of Wireshark's table."""

    origin: Origin
    protocol: str  # "IPv4" or "IPv6"
    source: str
    destination: str
    spi: int | None  # None: any
    encryption: str
    encryption_key: bytes = field(repr=False)
    integrity: str
    integrity_key: bytes = field(repr=False)
