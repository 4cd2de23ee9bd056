import io
import struct

import pytest

from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.capture.write.filter import write_selected_packets, write_selected_pcapng
from tests.craft import MS, Handshake, Interface, Trace


def trace(numbers=range(7), interfaces: int = 2) -> Trace:
    """Packets of these numbers, each with its IP identification, on one interface or the other."""
    made = Trace()
    for number in range(7):
        sent = made.send(number * MS, bytes([number]) * (20 + number), interface=number % interfaces)
        if number not in numbers:
            made.drop(sent)
    return made


def packets(data: bytes) -> list[bytes]:
    """Records of a little-endian pcap file, headers included, walked by hand."""
    result, at = [], 24
    while at < len(data):
        size = struct.unpack_from("<I", data, at + 8)[0]
        result.append(data[at : at + 16 + size])
        at += 16 + size
    return result


def test_records_of_pcap_are_copied(tmp_path):
    data = trace().pcap()
    path = tmp_path / "a.pcap"
    path.write_bytes(data)
    out = io.BytesIO()
    written = write_selected_packets(str(path), out, [6, 2, 2, 7])
    records = packets(data)
    assert out.getvalue() == data[:24] + records[1] + records[5] + records[6]
    assert (written.packets, written.bytes, written.missing) == (3, len(out.getvalue()), 0)


@pytest.mark.parametrize("block", ["EPB", "SPB", "PB"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_blocks_of_pcapng_are_copied(tmp_path, block, order):
    one = (Interface(),) if block == "SPB" else (Interface(name="a"), Interface(name="b"))
    form = {"interfaces": one, "block": block, "byteorder": order}
    path = tmp_path / "a.pcapng"
    path.write_bytes(trace(interfaces=len(one)).pcapng(**form))
    out = io.BytesIO()
    assert write_selected_packets(str(path), out, {2, 5}).packets == 2
    assert out.getvalue() == trace((1, 4), len(one)).pcapng(**form)


def test_sections_keep_their_interfaces(tmp_path, tshark):
    path, out = tmp_path / "a.pcapng", tmp_path / "b.pcapng"
    path.write_bytes(trace().pcapng(interfaces=(Interface(), Interface(tsresol=6)), sections=3, unknown=True))
    write_selected_packets(str(path), str(out), range(3, 7))
    fields = ("-n", "-Tfields", "-eframe.time_epoch", "-eframe.len", "-eudp.length", "-Yudp")
    every = tshark.run(*fields, capture=path).lines
    assert tshark.run(*fields, capture=out).lines == every[2:6]


def test_of_a_damaged_or_changed_capture_what_is_there(tmp_path):
    data = trace().pcap()
    path = tmp_path / "a.pcap"
    path.write_bytes(data[:-5])
    written = write_selected_packets(str(path), io.BytesIO(), [1, 7, 9])
    assert (written.packets, written.missing) == (1, 2)


def test_a_pipe_of_nothing_but_a_header_first(tmp_path):
    path = tmp_path / "a.pcap"
    path.write_bytes(trace().pcap()[:24])
    out = io.BytesIO()
    assert write_selected_packets(str(path), out, [1]).packets == 0
    assert out.getvalue() == path.read_bytes()


def test_a_capture_is_not_overwritten_by_its_copy(tmp_path):
    path = trace().write(tmp_path / "a.pcap")
    before = path.read_bytes()
    (tmp_path / "link.pcap").symlink_to(path)
    with pytest.raises(CaptureError, match="is also the output"):
        write_selected_packets(str(path), str(tmp_path / "link.pcap"), [1])
    with path.open("ab") as out, pytest.raises(CaptureError, match="is also the output"):
        write_selected_packets(str(path), out, [1])
    assert path.read_bytes() == before


def test_one_handshake_of_many_can_be_written(tmp_path):
    made = Trace()
    for number in range(5):
        made.play(Handshake(number).init(), at=number * 100 * MS)
    path = made.write(tmp_path / "a.pcap")
    records = packets(path.read_bytes())
    for number in range(1, len(records) + 1):
        out = io.BytesIO()
        write_selected_packets(str(path), out, [number])
        assert packets(out.getvalue()) == [records[number - 1]]


@pytest.mark.turns
@pytest.mark.parametrize("block", ["EPB", "PB", "SPB"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_packets_of_pcapng_get_comments(tmp_path, tshark, block, order):
    """Simple packet blocks have no options, and stay as they are."""
    path, out = tmp_path / "a.pcapng", tmp_path / "b.pcapng"
    path.write_bytes(trace(interfaces=1).pcapng(interfaces=(Interface(),), block=block, byteorder=order))
    result = write_selected_pcapng(str(path), str(out), [2, 3], {3: "the third"})
    lines = tshark.run("-n", "-Tfields", "-eframe.len", "-eframe.comment", capture=out).lines
    lengths = tshark.run("-n", "-Tfields", "-eframe.len", capture=path).lines
    comments = ["", "" if block == "SPB" else "the third"]
    assert lines == [f"{length}\t{comment}" for length, comment in zip(lengths[1:3], comments, strict=True)]
    assert result.uncommented == (block == "SPB")


def test_records_of_pcap_become_blocks_with_the_same_times_and_lengths(tmp_path, tshark):
    path, out = tmp_path / "a.pcap", tmp_path / "b.pcapng"
    path.write_bytes(trace().pcap(snaplen=40))
    write_selected_pcapng(str(path), str(out), [1, 7], {7: "cut"})
    fields = ("-n", "-Tfields", "-eframe.time_epoch", "-eframe.len", "-eframe.cap_len", "-eframe.encap_type")
    every = tshark.run(*fields, capture=path).lines
    assert tshark.run(*fields, capture=out).lines == [every[0], every[6]]
    assert tshark.run("-n", "-Tfields", "-eframe.comment", capture=out).lines == ["", "cut"]
