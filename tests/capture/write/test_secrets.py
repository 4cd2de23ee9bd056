"""Keys in a copy of a capture: the block by hand, and what else is copied."""

import stat
import struct

import pytest

from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.capture.write.secrets import embed_keys
from tests.craft import MS, Interface, Trace
from tests.craft.pcapng_file import block

KEYS = b'{"schema": "x"}'


def trace():
    made = Trace()
    for number in range(3):
        made.send(number * MS, bytes([number]) * 20)
    return made


def secrets(order):
    return block(10, struct.pack(f"{order}II", 0x494B454B, len(KEYS)) + KEYS + b"\0", order)


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_pcapng_file_gets_one_block_after_its_section_header(tmp_path, order):
    path, out = tmp_path / "a.pcapng", tmp_path / "b.pcapng"
    data = trace().pcapng(interfaces=(Interface(name="a"),), byteorder=order, unknown=True)
    path.write_bytes(data)
    assert embed_keys(str(path), str(out), KEYS) is None
    header = struct.unpack_from(f"{order}I", data, 4)[0]
    written = out.read_bytes()
    assert written[header:] == secrets(order) + data[header:]
    assert written[:16] == data[:16]


def test_keys_that_the_file_has_are_replaced_and_others_kept(tmp_path):
    first, second, third = (tmp_path / f"{name}.pcapng" for name in "abc")
    data = trace().pcapng()
    header = struct.unpack_from("<I", data, 4)[0]
    tls = block(10, struct.pack("<II", 0x544C534B, 4) + b"text")
    first.write_bytes(data[:header] + tls + data[header:])
    embed_keys(str(first), str(second), b"old keys")
    embed_keys(str(second), str(third), KEYS)
    written = third.read_bytes()
    assert b"old keys" not in written
    assert written.count(secrets("<")) == written.count(tls) == 1


def test_a_pcap_file_becomes_pcapng(tmp_path, tshark):
    path, out = tmp_path / "a.pcap", tmp_path / "b.pcapng"
    path.write_bytes(trace().pcap(snaplen=40))
    embed_keys(str(path), str(out), KEYS)
    fields = ("-n", "-Tfields", "-eframe.time_epoch", "-eframe.len", "-eframe.cap_len", "-eip.id")
    assert tshark.run(*fields, capture=out).lines == tshark.run(*fields, capture=path).lines
    assert secrets("<") in out.read_bytes()
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_a_file_that_all_could_read_becomes_its_owners_alone(tmp_path):
    path, out = tmp_path / "a.pcapng", tmp_path / "b.pcapng"
    path.write_bytes(trace().pcapng())
    out.write_bytes(b"old")
    out.chmod(0o644)
    embed_keys(str(path), str(out), KEYS)
    assert secrets("<") in out.read_bytes()
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_the_capture_itself_is_not_overwritten_and_damage_is_reported(tmp_path):
    path = tmp_path / "a.pcap"
    path.write_bytes(trace().pcap()[:-5])
    with pytest.raises(CaptureError, match="is also the output"):
        embed_keys(str(path), str(path), KEYS)
    damage = embed_keys(str(path), str(tmp_path / "b.pcapng"), KEYS)
    assert damage is not None
    assert "the file ends inside" in damage
