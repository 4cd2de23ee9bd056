"""The input of live: pipes and growing files."""

import gzip
import os
import threading

import pytest

from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.live.capture_feed import LiveInput, open_live_reader
from tests.craft import Handshake, Trace


@pytest.fixture
def capture():
    trace = Trace()
    trace.play(Handshake().setup())
    return trace.pcap()


@pytest.fixture
def pipe():
    read_end, write_end = os.pipe()
    yield read_end, write_end
    os.close(read_end)


def test_packets_are_returned_before_more_come(pipe, capture):
    read_end, write_end = pipe
    os.write(write_end, capture)
    batches = open_live_reader(LiveInput(read_end), "-").iterate_batches()
    assert len(next(batches)) == 4
    os.write(write_end, capture[24:] + capture[24:100])  # and a packet in part
    assert len(next(batches)) == 4
    os.write(write_end, capture[100:])
    assert len(next(batches)) == 4
    os.close(write_end)
    assert list(batches) == []


def test_a_truncated_stream_is_damage(pipe, capture):
    read_end, write_end = pipe
    os.write(write_end, capture[:-1])
    os.close(write_end)
    reader = open_live_reader(LiveInput(read_end), "-")
    assert sum(len(batch) for batch in reader.iterate_batches()) == 3
    assert "inside a packet" in reader.damage.what


def test_idle_is_called_while_nothing_comes(pipe, capture):
    read_end, write_end = pipe
    os.write(write_end, capture)
    source = LiveInput(read_end)
    calls = []

    def idle() -> None:
        calls.append(None)
        if len(calls) == 2:
            os.close(write_end)

    source.on_idle = idle
    assert sum(len(batch) for batch in open_live_reader(source, "-").iterate_batches()) == 4
    assert len(calls) == 2


def test_stop_ends_an_input_that_remains_open(pipe, capture):
    read_end, write_end = pipe
    os.write(write_end, capture)
    source = LiveInput(read_end)
    source.on_idle = lambda: source.stop(0)
    assert sum(len(batch) for batch in open_live_reader(source, "-").iterate_batches()) == 4
    os.close(write_end)


def test_a_growing_file_is_followed(tmp_path, capture):
    path = tmp_path / "growing.pcap"
    path.write_bytes(capture[:100])
    descriptor = os.open(path, os.O_RDONLY)
    source = LiveInput(descriptor, follow=True)
    packets = 0

    def idle() -> None:
        if packets < 4:
            with open(path, "ab") as file:
                file.write(capture[path.stat().st_size :])
        else:
            source.stop()

    source.on_idle = idle
    for batch in open_live_reader(source, str(path)).iterate_batches():
        packets += len(batch)
    assert packets == 4
    os.close(descriptor)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "no packets"),
        (gzip.compress(b"x" * 100, mtime=0), "compressed"),
        (b"text of some kind or other", "not a pcap"),
    ],
)
def test_other_inputs_are_refused(pipe, data, text):
    read_end, write_end = pipe
    os.write(write_end, data)
    os.close(write_end)
    with pytest.raises(CaptureError, match=text):
        open_live_reader(LiveInput(read_end), "-")


def test_the_header_may_come_late(pipe, capture):
    read_end, write_end = pipe

    def write() -> None:
        for at in range(0, len(capture), 7):
            os.write(write_end, capture[at : at + 7])
        os.close(write_end)

    writer = threading.Thread(target=write)
    writer.start()
    assert sum(len(batch) for batch in open_live_reader(LiveInput(read_end), "-").iterate_batches()) == 4
    writer.join()
