"""The notify payload of IKEv2. What the data of each type says is read by `notify_data`."""

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
    spi: bytes  # of the SA that it is about; mostly empty


def parse_notify(body: bytes) -> Notify:
    """Notify payload without its generic header (RFC 7296, section 3.10); `WireError` if it is too short."""
    return Notify(*parse_notify_fields(body))


def parse_notify_fields(body: bytes) -> tuple[int, bytes, int, bytes]:
    """The fields of `Notify`, for those who have no use for the object."""
    cursor = Cursor(body)
    protocol, spi_size, kind = cursor.unpack(_NOTIFY)
    spi = cursor.get_bytes(spi_size) if spi_size else b""
    return kind, cursor.get_remaining(), protocol, spi


def decode_notify_data(kind: int, data: bytes) -> "NotifyValue | None":
    """What a notify's data says. Never raises: None for data that do not fit the type, and for types without
    a rule.

    A number, an address, bytes that mean nothing to others (COOKIE, NAT_DETECTION_*_IP), numbers in their
    order (SIGNATURE_HASH_ALGORITHMS), or one of the classes of `notify_data`, where each type cites its RFC.
    """
    # most messages are read without it
    from ikeanalyze.wire.ikev2 import notify_data

    return notify_data.decode_notify_data(kind, data)


def describe_notify(notify: Notify) -> str:
    """Name of a notify, with what its data says where that is short: INVALID_KE_PAYLOAD ML-KEM-768."""
    from ikeanalyze.wire.ikev2 import notify_data

    return notify_data.describe_notify_data(notify.type, notify.data)


def compute_nat_detection_hash(spi_i: bytes, spi_r: bytes, address: bytes, port: int) -> bytes:
    """Data of NAT_DETECTION_*_IP for an address (4 or 16 bytes) and port (RFC 7296, section 2.23): SHA-1."""
    # a slow import, and few callers need it
    import hashlib

    # no security hangs on it: the protocol has it so
    return hashlib.sha1(spi_i + spi_r + address + _PORT.pack(port), usedforsecurity=False).digest()
