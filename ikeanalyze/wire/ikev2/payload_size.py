"""The sizes of the parts of a payload: generic header, fixed fields, and data."""

from dataclasses import dataclass
from typing import Final

from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.ikev2.payloads import parse_certificate
from ikeanalyze.wire.payload_chain import PAYLOAD_HEADER, Payload
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2 import PayloadType
from ikeanalyze.wire.x509.certificates import decode_certificate

#: Bytes of the fixed fields between the generic header and the data (RFC 7296, sections 3.4 to 3.8).
_FIXED_FIELDS: Final = {"KE": 4, "IDi": 4, "IDr": 4, "CERT": 1, "CERTREQ": 1, "AUTH": 4}


@dataclass(frozen=True, slots=True)
class PayloadSize:
    """The size of one payload of IKEv2."""

    name: str  # in the report
    header_bytes: int  # generic header and fixed fields
    data_bytes: int
    method: int | None = None  # of AUTH
    other_bytes: int | None = None  # of an X.509 certificate without its public key and its signature

    @property
    def bytes(self) -> int:
        """All bytes of the payload."""
        return self.header_bytes + self.data_bytes

    @classmethod
    def make(cls, name: str, data_bytes: int) -> "PayloadSize":
        """Make a payload with the fixed fields of its type."""
        return cls(name, PAYLOAD_HEADER.size + _FIXED_FIELDS.get(name, 0), data_bytes)


def measure_payload(payload: Payload) -> PayloadSize:
    """Return the sizes of a payload."""
    name = get_name(PayloadType, payload.type)
    fixed = min(_FIXED_FIELDS.get(name, 0), len(payload.body))
    method = payload.body[0] if name == "AUTH" and payload.body else None
    other = _measure_certificate(payload.body) if payload.type == PayloadType.CERT else None
    return PayloadSize(name, PAYLOAD_HEADER.size + fixed, len(payload.body) - fixed, method, other)


def _measure_certificate(body: bytes) -> int | None:
    """Return the bytes of an X.509 certificate without its public key and its signature; None: another encoding."""
    try:
        outline = decode_certificate(parse_certificate(body)).x509
    except WireError:
        return None
    return None if outline is None else outline.other_bytes
