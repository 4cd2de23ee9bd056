import numpy as np
import pytest

from ikeanalyze.capture.formats import records
from ikeanalyze.capture.reader import open_capture
from ikeanalyze.capture.write.pcap_as_pcapng import encode_file_header, encode_packet_blocks, encode_timestamps
from tests.capture.savefiles import interface as interface_block
from tests.capture.savefiles import option, section
from tests.craft import Interface, Packet, pcap, pcapng, pcapng_file

PACKETS = [
    Packet(1_700_000_000_123_456_000, b"one"),
    Packet(1_700_000_000_000_001_000, b"", length=60),
    Packet(4_294_967_295_999_999_000, b"three bytes more", length=1500),
    Packet(0, b"four"),
]


@pytest.mark.parametrize("nanoseconds", [False, True])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("left_out", [[], [0], [1, 3], [0, 1, 2, 3]])
@pytest.mark.parametrize("behind", [{}, {0: b"abcd", 3: b"efghijkl"}, {1: b"", 2: b"mnop"}])
def test_as_others_write_them(tmp_path, nanoseconds, order, left_out, behind) -> None:
    path = tmp_path / "in.pcap"
    path.write_bytes(pcap(PACKETS, byteorder=order, nanoseconds=nanoseconds))
    interface = Interface(tsresol=9 if nanoseconds else 6)
    expected = b""
    for row, packet in enumerate(PACKETS):
        if row not in left_out:
            expected += pcapng_file.packet_block(packet, interface)
        expected += behind.get(row, b"")
    with open_capture(path) as reader:
        (batch,) = reader.iterate_batches()
        mask = np.isin(np.arange(len(PACKETS)), left_out)
        assert bytes(encode_packet_blocks(batch, interface.tsresol, mask, behind)) == expected
        high, low = encode_timestamps(batch, interface.tsresol)
    ticks = [packet.time_ns // (1 if nanoseconds else 1000) for packet in PACKETS]
    assert [int(upper) << 32 | int(lower) for upper, lower in zip(high, low, strict=True)] == ticks


def test_the_section_and_interface_of_the_head() -> None:
    names = option(4, b"me") + option(1, b"why") + bytes(4)
    head = encode_file_header(records.Interface(113, None, 1000, 9, None), "me", "why", 500)
    assert head == section(options=names) + interface_block(113, 1000, options=option(9, b"\x09") + bytes(4))


def test_the_snapshot_length_grows_with_what_is_written() -> None:
    no_limit = encode_file_header(records.Interface(1, None, 0), "me", None, 500)
    limited = encode_file_header(records.Interface(1, None, 96), "me", None, 500)
    rest = section(options=option(4, b"me") + bytes(4))
    assert no_limit == rest + interface_block(1, 0, options=option(9, b"\x06") + bytes(4))
    assert limited == rest + interface_block(1, 500, options=option(9, b"\x06") + bytes(4))


def test_the_frame_check_sequence_is_told_in_bits() -> None:
    head = encode_file_header(records.Interface(1, None, 0, 6, 4), "me", None, 0)
    assert head.endswith(interface_block(1, 0, options=option(9, b"\x06") + option(13, b"\x20") + bytes(4)))


def test_a_link_type_that_has_no_room() -> None:
    with pytest.raises(ValueError, match="link type 65536"):
        encode_file_header(records.Interface(65536, None, 0), "me", None, 0)


def test_what_is_written_is_read_again(tmp_path) -> None:
    (tmp_path / "in.pcap").write_bytes(pcap(PACKETS))
    with open_capture(tmp_path / "in.pcap") as reader:
        (batch,) = reader.iterate_batches()
        blocks = bytes(encode_packet_blocks(batch, 9, np.zeros(len(PACKETS), np.bool_), {}))
    head = encode_file_header(records.Interface(1, None, 262144, 9), "me", None, 0)
    (tmp_path / "out.pcapng").write_bytes(head + blocks)
    with open_capture(tmp_path / "out.pcapng") as reader:
        (batch,) = reader.iterate_batches()
        assert batch.time_ns.tolist() == [packet.time_ns for packet in PACKETS]
        assert batch.length.tolist() == [packet.wire_length for packet in PACKETS]
    assert pcapng(PACKETS).endswith(blocks)
