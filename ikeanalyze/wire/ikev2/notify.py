"""Parses the notify payload of IKEv2; `notify_data` decodes the data of each type."""

from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Final

from ikeanalyze.wire.cursor import Cursor

if TYPE_CHECKING:
    from ikeanalyze.wire.ikev2.notify_data import NotifyValue

#: Protocol, SPI size, notify message type.
_NOTIFY: Final = Struct(">BBH")
_PORT: Final = Struct(">H")


@dataclass(frozen=True, slots=True)
class Notify:
    """Notify payload (RFC 7296, section 3.10)."""

    type: int
    data: bytes
    protocol: int  # of the SPI: 1 IKE, 2 AH, 3 ESP; 0: no SPI
    spi: bytes  # of the SA that the notify concerns; usually empty


def parse_notify(body: bytes) -> Notify:
    """Parse a notify payload (RFC 7296, section 3.10); `body` follows its generic header.

    Raises:
        WireError: it is too short for its fields.
    """
    return Notify(*parse_notify_fields(body))


def parse_notify_fields(body: bytes) -> tuple[int, bytes, int, bytes]:
    """The fields of `Notify` without the object, for loops over many messages; raises as `parse_notify`."""
    cursor = Cursor(body)
    protocol, spi_size, kind = cursor.unpack(_NOTIFY)
    spi = cursor.read_bytes(spi_size) if spi_size else b""
    return kind, cursor.read_remaining(), protocol, spi


def decode_notify_data(kind: int, data: bytes) -> "NotifyValue | None":
    """Decode the data of a notify. Never raises: None for invalid data and for types without structured data.

    Returns a number, an address, opaque bytes (COOKIE, NAT_DETECTION_*_IP), a tuple of numbers
    (SIGNATURE_HASH_ALGORITHMS), or an instance of a class of `notify_data`.
    """
    # late: an analysis without payloads does not need this module
    from ikeanalyze.wire.ikev2 import notify_data

    return notify_data.decode_notify_data(kind, data)


def describe_notify(notify: Notify) -> str:
    """Name of a notify, with its data if they are short: INVALID_KE_PAYLOAD ML-KEM-768."""
    # late, as in decode_notify_data
    from ikeanalyze.wire.ikev2 import notify_data

    return notify_data.describe_notify_data(notify.type, notify.data)


def compute_nat_detection_hash(spi_i: bytes, spi_r: bytes, address: bytes, port: int) -> bytes:
    """Data of NAT_DETECTION_*_IP for an address (4 or 16 bytes) and port (RFC 7296, section 2.23): SHA-1."""
    # late: slow to import, and few captures need it
    import hashlib

    # RFC 7296 requires SHA-1 here; it does not protect anything
    return hashlib.sha1(spi_i + spi_r + address + _PORT.pack(port), usedforsecurity=False).digest()
