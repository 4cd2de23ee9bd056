"""Embeds keys in a copy of a capture, as a decryption secrets block of pcapng before the first packet.

Everything else of a pcapng file is copied byte for byte, except for section lengths and for keys of IKE that the file
already has. A pcap file is converted to pcapng.
"""

from collections.abc import Iterator

import numpy as np

from ikeanalyze._version import installed_version
from ikeanalyze.capture.formats import pcapng_blocks
from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.capture.frames import Progress, describe_damage
from ikeanalyze.capture.reader import CaptureReader, FileSegment, open_capture
from ikeanalyze.capture.write.pcap_as_pcapng import ORDER, encode_file_header, encode_packet_blocks
from ikeanalyze.io.atomic_write import replace_atomically
from ikeanalyze.io.compress import compress


def embed_keys(path: str, out: str, keys: bytes, progress: Progress | None = None) -> str | None:
    """Write a copy of a capture with keys of IKE (JSON) in it, readable by its owner only, compressed if `out` says so.

    Returns where and why reading the source stopped early; None: it was read completely.

    Raises:
        CaptureError: the source cannot be read, is also the output, or has a link type that pcapng does not support.
        OSError: the output cannot be written.
    """
    with open_capture(path) as reader:
        reader.source.refuse_as_output(out)
        copy = _copy_records if reader.format == "pcap" else _copy_blocks
        with (
            replace_atomically(out, owner_only=True) as temporary,
            open(temporary, "wb") as file,
            compress(out, file) as stream,
        ):
            for data in copy(reader, keys, progress):
                stream.write(data)
        return None if reader.damage is None else describe_damage(reader.damage)


def _iterate_segments(reader: CaptureReader, progress: Progress | None) -> Iterator[FileSegment]:
    for segment in reader.iterate_segments():
        yield segment
        if progress is not None:
            progress(reader.source.consumed, reader.source.size)


def _copy_records(reader: CaptureReader, keys: bytes, progress: Progress | None) -> Iterator[bytes | memoryview]:
    interface = reader.interfaces[0]
    try:
        header = encode_file_header(interface, f"ikeanalyze {installed_version()}", None, 0)
    except ValueError as error:
        raise CaptureError(f"{reader.source.name}: {error}") from None
    yield header + pcapng_blocks.encode_decryption_secrets(pcapng_blocks.IKE_KEYS, keys, ORDER)
    for segment in _iterate_segments(reader, progress):
        yield encode_packet_blocks(segment.batch, interface.resolution, np.zeros(len(segment.batch), np.bool_), {})


def _copy_blocks(reader: CaptureReader, keys: bytes, progress: Progress | None) -> Iterator[bytes | memoryview]:
    order, pending = "<", True
    for segment in _iterate_segments(reader, progress):
        whole = memoryview(segment.buffer)
        blocks = pcapng_blocks.iterate_blocks(segment.buffer, segment.stop, order)
        for block_type, at, size, block_order in blocks:
            block, order = whole[at : at + size], block_order
            if block_type == pcapng_blocks.SECTION:
                yield pcapng_blocks.reopen_section_header(bytes(block), order, None)
                if pending:
                    yield pcapng_blocks.encode_decryption_secrets(pcapng_blocks.IKE_KEYS, keys, order)
                    pending = False
            elif not _has_ike_keys(block_type, bytes(block[:24]), order):
                yield block


def _has_ike_keys(block_type: int, head: bytes, order: str) -> bool:
    if block_type != pcapng_blocks.DECRYPTION_SECRETS:
        return False
    return pcapng_blocks.parse_decryption_secrets(head, order)[0] == pcapng_blocks.IKE_KEYS
