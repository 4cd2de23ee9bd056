"""Parses the header of IKE messages, which IKEv1 and IKEv2 share."""

from struct import Struct
from typing import Final

import msgspec

from ikeanalyze.wire.cursor import Cursor

#: SPIs, next payload, version, exchange type, flags, message ID, length.
HEADER: Final = Struct(">8s8sBBBBII")
#: Bytes of an SPI, and of a cookie of IKEv1.
SPI_BYTES: Final = 8
#: Offsets of fields in the header.
NEXT_PAYLOAD_OFFSET: Final = 16
VERSION_OFFSET: Final = 17
EXCHANGE_TYPE_OFFSET: Final = 18
FLAGS_OFFSET: Final = 19
LENGTH_OFFSET: Final = 24

#: Version field and flags of IKEv2 (RFC 7296, section 3.1).
VERSION_IKEV2: Final = 0x20
FLAG_INITIATOR, FLAG_RESPONSE = 0x08, 0x20
_HIGHER_VERSION: Final = 0x10
#: Flag of IKEv1 (RFC 2408, section 3.1).
FLAG_ENCRYPTED: Final = 0x01


class Header(msgspec.Struct, frozen=True):
    """An IKE header (RFC 7296, section 3.1; RFC 2408, section 3.1)."""

    spi_i: bytes  # SPI of the IKE SA's initiator (IKEv1: its cookie), 8 bytes
    spi_r: bytes  # SPI of its responder, 8 bytes; zeros in the first message
    next_payload: int  # type of the first payload; 0: no payload
    version: int  # major version in the upper four bits, minor version in the lower four
    exchange_type: int
    flags: int
    message_id: int
    length: int  # bytes of the message including this header

    @property
    def major_version(self) -> int:
        """2 for IKEv2, 1 for IKEv1."""
        return self.version >> 4

    @property
    def minor_version(self) -> int:
        """0 in both versions."""
        return self.version & 0x0F

    @property
    def initiator(self) -> bool:
        """IKEv2: the sender is the original initiator of the IKE SA."""
        return bool(self.flags & FLAG_INITIATOR)

    @property
    def response(self) -> bool:
        """IKEv2: the message is a response to the request with the same message ID."""
        return bool(self.flags & FLAG_RESPONSE)

    @property
    def higher_version(self) -> bool:
        """IKEv2: the sender supports a higher major version."""
        return bool(self.flags & _HIGHER_VERSION)

    @property
    def encrypted(self) -> bool:
        """IKEv1: the payloads are encrypted."""
        return bool(self.flags & FLAG_ENCRYPTED)


def parse_header(data: bytes) -> Header:
    """Parse the header of an IKE message of either version, without checking its values.

    Raises:
        WireError: the data have fewer than 28 bytes.
    """
    return Header(*Cursor(data).unpack(HEADER))


def is_truncated_message(data: bytes) -> bool:
    """Whether these are not all bytes of a message: its header is truncated, or announces more bytes than there are."""
    return len(data) < HEADER.size or HEADER.unpack_from(data)[-1] > len(data)
