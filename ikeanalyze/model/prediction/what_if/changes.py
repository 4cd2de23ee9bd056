"""Changes of the payloads that a handshake sends, and their notation on the command line."""

from dataclasses import dataclass
from typing import Final

from ikeanalyze.model.prediction.flow import Side
from ikeanalyze.model.prediction.what_if.algorithm_sizes import KEMS, SIGNATURES, KemSizes, SignatureSizes
from ikeanalyze.wire.registries.ikev2 import PayloadType

#: Largest data of a payload: its length field has two bytes.
_MAX_DATA: Final = 65_500
_MAX_CHAIN: Final = 20
_SIDES: Final[tuple[Side, ...]] = ("initiator", "responder")


class ChangeError(ValueError):
    """A change is invalid, or the handshake does not allow it; the message has the reason."""


@dataclass(frozen=True, slots=True)
class PayloadChange:
    """A payload by its name in the report, and the bytes of its data without fixed fields."""

    payload: str
    data_bytes: int
    side: Side | None = None  # that sends it; None: both


@dataclass(frozen=True, slots=True)
class ChainChange:
    """The number of certificates that a side sends."""

    certificates: int
    side: Side | None = None  # None: both sides that send certificates


@dataclass(frozen=True, slots=True)
class HandshakeChanges:
    """Changes of a handshake, in the order in which they are made."""

    signature: SignatureSizes | None = None  # of AUTH payloads and certificates of the sides that sign
    kem: KemSizes | None = None  # of all additional key exchanges; of IKE_SA_INIT if there are none
    chains: tuple[ChainChange, ...] = ()
    replaced: tuple[PayloadChange, ...] = ()
    added: tuple[PayloadChange, ...] = ()
    added_kems: tuple[KemSizes, ...] = ()  # with an IKE_INTERMEDIATE exchange each

    def __bool__(self) -> bool:
        """Whether there are any."""
        return self != HandshakeChanges()

    def describe(self) -> tuple[str, ...]:
        """Return the changes in words."""
        texts = [f"signatures {self.signature.name}"] if self.signature else []
        texts += [f"key exchange {self.kem.name}"] if self.kem else []
        for chain in self.chains:
            number = "1 certificate" if chain.certificates == 1 else f"{chain.certificates} certificates"
            texts.append(f"{_describe_side(chain.side)}{number}")
        for verb, changes in (("with", self.replaced), ("one more", self.added)):
            texts += [
                f"{_describe_side(change.side)}{verb} {change.payload} of {change.data_bytes:,} bytes"
                for change in changes
            ]
        texts += [f"additional key exchange {kem.name}" for kem in self.added_kems]
        return tuple(texts)


def _describe_side(side: Side | None) -> str:
    return f"{side}: " if side else ""


def parse_kem(text: str) -> KemSizes:
    """Return a key encapsulation mechanism by its name, such as ml-kem-768.

    Raises:
        ChangeError: unknown name.
    """
    if kem := KEMS.get(text.lower()):
        return kem
    raise ChangeError(f"unknown algorithm {text!r}; known: {', '.join(KEMS)}")


def parse_signature(text: str) -> SignatureSizes:
    """Return a signature algorithm by its name, such as ml-dsa-65.

    Raises:
        ChangeError: unknown name.
    """
    if algorithm := SIGNATURES.get(text.lower()):
        return algorithm
    raise ChangeError(f"unknown algorithm {text!r}; known: {', '.join(SIGNATURES)}")


def parse_payload_change(text: str) -> PayloadChange:
    """Parse `AUTH=3309` or `responder:CERT=5390`.

    Raises:
        ChangeError: invalid text, or an unknown payload.
    """
    side, rest = _split_side(text)
    name, equals, size = rest.partition("=")
    if not equals or not size.strip().isdecimal() or not 0 <= int(size) <= _MAX_DATA:
        raise ChangeError(f"{text!r} is not a payload and its bytes, such as AUTH=3309 or responder:CERT=5390")
    names = {key.upper(): item.label for item in PayloadType for key in (item.name, item.label)}
    for other in ("NONE", "SK", "SKF"):  # not sent, or not part of the contents
        names.pop(other)
    if name.strip().upper() not in names:
        raise ChangeError(f"unknown payload {name.strip()!r}; known: {', '.join(sorted(set(names.values())))}")
    return PayloadChange(names[name.strip().upper()], int(size), side)


def parse_chain(text: str) -> ChainChange:
    """Parse `3` or `responder:3`.

    Raises:
        ChangeError: invalid text.
    """
    side, number = _split_side(text)
    if not number.strip().isdecimal() or not 1 <= int(number) <= _MAX_CHAIN:
        raise ChangeError(f"{text!r} is not a number of certificates from 1 to {_MAX_CHAIN}, such as 3 or responder:3")
    return ChainChange(int(number), side)


def _split_side(text: str) -> tuple[Side | None, str]:
    before, colon, rest = text.partition(":")
    if not colon:
        return None, text
    for side in _SIDES:
        if before.strip() == side:
            return side, rest
    raise ChangeError(f"{text!r}: the side is initiator or responder, not {before!r}")
