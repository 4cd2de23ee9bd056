"""The capture reader: any bytes become frames that conserve packets and bytes, or one documented error."""

from io import BytesIO
from typing import Final

import numpy as np

from fuzz.harness import Harness
from fuzz.mutators.captures import mutate_capture
from fuzz.workspace import write_file
from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.capture.frames import CaptureFrames, read_frames
from ikeanalyze.capture.reader import open_capture
from ikeanalyze.capture.write.filter import write_selected_packets

#: Categories of packets that are rows of the frames table.
_KEPT: Final = ("ike", "radius", "hip")
_SMALL_CHUNK: Final = 256
#: Port in addition to 500 and 4500, so that more packets are classified as IKE.
_PORT: Final = 1812


def run(data: bytes) -> None:
    """Read a capture in two ways and check both against the conservation laws."""
    path = write_file("capture", data)
    try:
        frames = read_frames(path, ports=(_PORT,) if len(data) % 2 else (), spis=None)
    except CaptureError:
        return
    _check_laws(frames)
    _check_small_chunks(path, frames)
    _check_filter(path, frames)


def _check_laws(frames: CaptureFrames) -> None:
    columns = frames.columns
    numbers = columns["number"]
    assert sum(frames.accounting.values()) == frames.packets, "packets are lost or invented"
    assert sum(frames.accounting_bytes.values()) == frames.bytes, "bytes are lost or invented"
    assert min(frames.accounting.values()) >= 0
    assert len({len(column) for column in columns.values()}) == 1
    assert len(np.unique(numbers)) == sum(frames.accounting[name] for name in _KEPT)
    assert int(columns["bytes"].astype(np.int64).sum()) == sum(frames.accounting_bytes[name] for name in _KEPT)
    assert not len(numbers) or 1 <= numbers.min() <= numbers.max() <= frames.packets
    assert {*frames.clear, *frames.encrypted} <= set(columns["datagram"].tolist())
    for code in np.unique(columns["source"]).tolist():
        frames.address(code)


def _check_small_chunks(path: str, frames: CaptureFrames) -> None:
    """The size of the buffer changes nothing."""
    with open_capture(path, chunk=_SMALL_CHUNK) as reader:
        packets = length = 0
        for batch in reader.iterate_batches():
            packets += len(batch)
            length += int(batch.length.sum())
            assert (batch.captured <= batch.length).all()
        assert (packets, length) == (frames.packets, frames.bytes), "chunks of another size give other packets"
        assert (reader.damage is not None) == frames.damaged


def _check_filter(path: str, frames: CaptureFrames) -> None:
    """A copy with every packet has the same packets."""
    copy = BytesIO()
    result = write_selected_packets(path, copy, range(1, frames.packets + 1))
    assert (result.packets, result.missing) == (frames.packets, 0)
    copied = read_frames(write_file("copy", copy.getvalue()))
    assert (copied.packets, copied.bytes) == (frames.packets, frames.bytes), "the copy differs"
    assert not copied.damaged


HARNESS: Final = Harness(run, mutate_capture, max_bytes=16384, share=0.1)
