"""Writes the replay's own capture: a pcapng file of sent and received IP packets without link header.

The capture point is our end of the path, before injected faults. It therefore has every transmission of ours and every
datagram that arrived, like a capture on a host's interface.

If the disk fills up, the replay continues, so that the target is left in order and the result can be reported; `check`
raises the error.
"""

import struct
from typing import BinaryIO, Final

from ikeanalyze.capture.formats.pcapng_blocks import (
    IF_DESCRIPTION,
    IF_NAME,
    IF_TSRESOL,
    SHB_USERAPPL,
    PacketBlockHeader,
    encode_enhanced_packet,
    encode_interface_description,
    encode_section_header,
    make_comment_option,
)

_BYTE_ORDER: Final = "<"
_LINKTYPE_RAW: Final = 101
_NANOSECONDS: Final = bytes((9,))
_SNAPLEN: Final = 65_535
#: Limit for the packet bytes of a recording.
MAX_BYTES: Final = 1 << 30


class RecordingError(Exception):
    """Our own capture or its keys cannot be written."""

    def __init__(self, path: str, error: OSError) -> None:
        super().__init__(f"{path}: cannot be written: {error.strerror or error}")
        self.path, self.error = path, error


class CaptureWriter:
    """Writes packets to a stream, which the caller closes."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.packets = 0
        self.bytes = 0
        self.dropped = 0  # packets beyond the limit or after a write error
        self._error: OSError | None = None  # the first write error

    def begin(self, *, name: str, description: str, comment: str) -> None:
        """Write the headers: name and description of the interface, a comment on the file."""
        options = [(SHB_USERAPPL, b"ikeanalyze replay"), make_comment_option(comment)]
        self._stream.write(encode_section_header(options, _BYTE_ORDER))
        options = [(IF_NAME, name.encode()), (IF_DESCRIPTION, description.encode()), (IF_TSRESOL, _NANOSECONDS)]
        self._stream.write(encode_interface_description(_LINKTYPE_RAW, _SNAPLEN, options, _BYTE_ORDER))

    def write_packet(self, time_ns: int, frame: bytes) -> None:
        """Write an IP packet sent or received at this time (ns since 1970-01-01 UTC)."""
        if self._error is not None or self.bytes + len(frame) > MAX_BYTES:
            self.dropped += 1
            return
        time = struct.pack("<2I", time_ns >> 32 & 0xFFFFFFFF, time_ns & 0xFFFFFFFF)
        try:
            self._stream.write(encode_enhanced_packet(PacketBlockHeader(0, time, ()), frame, _BYTE_ORDER))
        except OSError as error:
            self._error = error
            self.dropped += 1
            return
        self.packets += 1
        self.bytes += len(frame)

    def check(self) -> None:
        """Raise the `OSError` of the first failed write, if any."""
        if self._error is not None:
            raise self._error
