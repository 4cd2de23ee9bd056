"""Parses the notify payload of IKEv2; `notify_data` decodes the data of each type."""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from ikeanalyze.wire.cursor import Cursor

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


def compute_nat_detection_hash(spi_i: bytes, spi_r: bytes, address: bytes, port: int) -> bytes:
    """Data of NAT_DETECTION_*_IP for an address (4 or 16 bytes) and port (RFC 7296, section 2.23): SHA-1."""
    # late: slow to import, and few captures need it
    import hashlib

    # RFC 7296 requires SHA-1 here; it does not protect anything
    return hashlib.sha1(spi_i + spi_r + address + _PORT.pack(port), usedforsecurity=False).digest()
