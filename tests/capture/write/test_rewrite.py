"""Expected are the files that tests/craft makes of the same packets with some of them replaced, byte for byte."""

import gzip
import io
import json
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.capture.frames import read_frames
from ikeanalyze.capture.write.frames import MAX_MESSAGE_BYTES, CleartextMessage
from ikeanalyze.capture.write.rewrite import PacketEdit, RewriteResult, rewrite_capture
from tests.capture.savefiles import block, enhanced, obsolete, option, section, simple
from tests.capture.savefiles import interface as interface_block
from tests.craft import Interface, Packet, ike, ip, ip_fragments, link, pcap, pcapng, pcapng_file, tcp, udp_packet
from tests.craft.transport import tcp_framed
from tests.paths import CAPTURES, ROOT

SPI = bytes(range(1, 9))
SECOND = 10**9
TIME = 1_700_000_000 * SECOND
END = bytes(4)
IN_TCP = "in the capture this message is in a TCP stream (RFC 9329); here it is a UDP datagram of its own"


def message(size: int = 100) -> bytes:
    return ike.message(SPI, SPI, ike.IKE_AUTH, 8, 1, [ike.notify(16384, bytes(n % 256 for n in range(size)))])


def encrypted(size: int = 60) -> bytes:
    return ike.encrypted(SPI, SPI, ike.IKE_AUTH, 8, 1, ike.ID_I, b"\xa5" * size)


ENCRYPTED, OPENED = udp_packet(encrypted()), udp_packet(message())
FRAME, CLEAR = link.ethernet(ENCRYPTED), link.ethernet(OPENED)
EDIT = PacketEdit((CleartextMessage(message(), "why"),))


def run(data: bytes, edits: dict[int, PacketEdit], comment: str | None = None) -> tuple[bytes, RewriteResult]:
    out = io.BytesIO()
    with tempfile.NamedTemporaryFile() as source:
        source.write(data)
        source.flush()
        result = rewrite_capture(source.name, out, edits, comment=comment)
    assert result.written == result.packets - result.removed + result.inserted
    return out.getvalue(), result


def written(data: bytes, edits: dict[int, PacketEdit], comment: str | None = None) -> bytes:
    out, result = run(data, edits, comment)
    assert not result.warnings
    assert result.damage is None
    return out


def head_of_pcap(resolution: int, link_type: int = 1, snaplen: int = 262144, more: bytes = b"") -> bytes:
    import ikeanalyze

    name = f"ikeanalyze {ikeanalyze.__version__}".encode()
    return section(options=option(4, name) + more + END) + interface_block(
        link_type, snaplen, options=option(9, bytes([resolution])) + END
    )


# ---- any capture, any edits


LINKS = [(kind, framer) for kind, framer in link.FRAMERS.items() if kind != 229]


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Packet], dict[int, PacketEdit], list[Packet], list[int]]:
    """Packets of several interfaces, edits of them, what should come of that, and the interfaces' link types."""
    links = draw(st.lists(st.sampled_from(LINKS), min_size=1, max_size=3))
    packets, edits, expected = [], {}, []
    for number in range(1, draw(st.integers(0, 8)) + 1):
        index = draw(st.integers(0, len(links) - 1))
        kind, framer = links[index]
        port = draw(st.sampled_from([500, 4500]))
        marker = bytes(4) if port == 4500 else b""
        ends = ("2001:db8::1", "::2") if kind != 228 and draw(st.booleans()) else ("192.0.2.1", "10.0.0.1")
        data = framer(udp_packet(marker + encrypted(draw(st.integers(0, 50))), port, port, *ends))
        old = Packet(
            TIME + number * draw(st.integers(0, SECOND)) * 1000,
            data,
            index,
            length=len(data) + draw(st.integers(0, 9)),
        )
        packets.append(old)
        sizes = draw(st.lists(st.integers(0, 2000), max_size=2))
        edit = PacketEdit(
            tuple(CleartextMessage(message(size), draw(st.sampled_from([None, "ä", "c" * 50]))) for size in sizes),
            keep=draw(st.booleans()),
        )
        if draw(st.booleans()):
            expected.append(old)
            continue
        edits[number] = edit
        if edit.keep:
            expected.append(old)
        for clear in edit.clear:
            new = framer(udp_packet(marker + clear.message, port, port, *ends))
            expected.append(Packet(old.time_ns, new, index, comment=clear.comment))
    return packets, edits, expected, [kind for kind, _ in links]


@given(cases(), st.sampled_from(["<", ">"]), st.sampled_from([None, 6, 9, 0x94]), st.sampled_from([None, -3600]))
def test_a_pcapng_file(case, order, resolution, offset) -> None:
    packets, edits, expected, kinds = case
    interfaces = [Interface(kind, resolution, offset, 65535, f"if{index}") for index, kind in enumerate(kinds)]
    form = {"byteorder": order, "interfaces": interfaces, "comment": "of the file"}
    assert written(pcapng(packets, **form), edits) == pcapng(expected, **form)


@given(cases(), st.sampled_from(["<", ">"]), st.booleans())
def test_a_pcap_file(case, order, nanoseconds) -> None:
    packets, edits, expected, kinds = case
    numbers = [number for number, packet in enumerate(packets, 1) if packet.interface == 0]
    edits = {numbers.index(number) + 1: edit for number, edit in edits.items() if number in numbers}
    expected = [packet for packet in expected if packet.interface == 0]
    source = pcap([packets[n - 1] for n in numbers], byteorder=order, nanoseconds=nanoseconds, linktype=kinds[0])
    interface = Interface(kinds[0], 9 if nanoseconds else 6)
    blocks = b"".join(pcapng_file.packet_block(packet, interface) for packet in expected)
    assert written(source, edits) == head_of_pcap(9 if nanoseconds else 6, kinds[0]) + blocks


def test_sections_of_both_byte_orders() -> None:
    packets = [Packet(TIME + n, FRAME, n % 2) for n in range(9)]
    form = {"byteorder": ["<", ">", "<"], "interfaces": [Interface(), Interface(tsresol=6)]}
    expected = list(packets)
    for number in (1, 5, 9):
        expected[number - 1] = replace(packets[number - 1], data=CLEAR, comment="why")
    edits = {1: EDIT, 5: EDIT, 9: EDIT}
    assert written(pcapng(packets, **form), edits) == pcapng(expected, **form)


def test_numbers_count_over_all_pieces_of_a_large_file(tmp_path: Path) -> None:
    # the reader takes 4 MiB at once
    packets = [Packet(TIME + n, FRAME + bytes(1000)) for n in range(9000)]
    changed = {1: EDIT, 3900: EDIT, 3901: EDIT, 8999: PacketEdit(into=9000), 9000: EDIT}
    expected = [
        replace(packet, data=CLEAR, comment="why") if number in changed else packet
        for number, packet in enumerate(packets, 1)
        if number != 8999
    ]
    assert written(pcapng(packets), changed) == pcapng(expected)
    blocks = b"".join(pcapng_file.packet_block(packet, Interface()) for packet in expected)
    assert written(pcap(packets), changed) == head_of_pcap(9) + blocks


@given(st.lists(st.tuples(st.sampled_from(["<", ">"]), st.integers(0, 3), st.binary(max_size=9)), max_size=4))
def test_without_edits_a_pcapng_file_is_copied(parts) -> None:
    data = section() + interface_block()
    for order, packets, body in parts:
        data += section(order, options=option(2988, body, order)) + interface_block(1, 0, order)
        for kind in (4, 5, 10, 0xBAD, 0x40000BAD, 0x80000001):
            data += block(kind, body, order)
        data += enhanced(b"\n\r\r\n" * packets, order=order) + simple(body, order=order)
        data += obsolete(body, order=order)
    assert written(data, {}) == data


# ---- pcapng, block by block


@pytest.mark.parametrize("order", ["<", ">"])
def test_all_other_blocks_stay_where_they_are(order: str) -> None:
    def between(number: int) -> bytes:
        kinds = (4, 5, 10, 0xBAD, 0x80000001)
        return b"".join(block(kind, bytes([number]) * number, order) for kind in kinds)

    head = section(order, 4096, options=option(4, b"editor", order) + END) + interface_block(1, 0, order)
    old = head + b"".join(between(n) + enhanced(FRAME, n, order=order) for n in (1, 2, 3)) + between(4)
    comment = option(1, b"why", order) + END
    new = section(order, -1, options=option(4, b"editor", order) + END) + interface_block(1, 0, order)
    new += between(1) + enhanced(CLEAR, 1, order=order, options=comment)
    new += between(2) + between(3) + enhanced(FRAME, 3, order=order)
    new += enhanced(CLEAR, 3, order=order, options=comment) + between(4)
    assert written(old, {1: EDIT, 2: PacketEdit(), 3: replace(EDIT, keep=True)}) == new


@pytest.mark.parametrize("order", ["<", ">"])
def test_options_of_a_packet(order: str) -> None:
    def flags(value: int) -> bytes:
        return option(2, struct.pack(order + "I", value), order)

    drops = option(4, struct.pack(order + "Q", 5), order)
    other = option(5, bytes(8), order) + option(2988, b"PENPcopied", order)
    old = option(1, b"first", order) + flags(0x80000001 | 2 << 2 | 0b0100 << 5) + option(3, b"\2hash", order)
    old += drops + option(19372, b"PENPnot copied", order) + other + option(1, b"second", order) + END
    head = section(order) + interface_block(101, 0, order)
    source = head + enhanced(ENCRYPTED, 7, order=order, options=old)
    # of the flags, direction and type of reception stay: the frame check sequence and the errors are gone
    kept = option(1, b"first", order) + flags(0b01001) + drops + other + option(1, b"second", order)
    ours = option(1, b"why", order) + END
    first = enhanced(OPENED, 7, order=order, options=kept + ours)
    again = enhanced(OPENED, 7, order=order, options=flags(0b01001) + ours)
    assert written(source, {1: EDIT}) == head + first
    assert written(source, {1: PacketEdit(EDIT.clear * 2)}) == head + first + again
    assert written(source, {1: replace(EDIT, keep=True)}) == source + again


@pytest.mark.parametrize("order", ["<", ">"])
def test_obsolete_packet_blocks_become_enhanced_ones(order: str) -> None:
    head = section(order) + interface_block(1, 0, order) + interface_block(101, 0, order)
    source = head + obsolete(FRAME, 7, 0, order=order) + obsolete(ENCRYPTED, 8, 1, 3, order)
    lost = option(4, struct.pack(order + "Q", 3), order)
    comment = option(1, b"why", order) + END
    assert written(source, {1: EDIT, 2: EDIT}) == head + enhanced(CLEAR, 7, 0, order=order, options=comment) + enhanced(
        OPENED, 8, 1, order=order, options=lost + comment
    )
    assert written(source, {1: PacketEdit()}) == head + obsolete(ENCRYPTED, 8, 1, 3, order)


@pytest.mark.parametrize("order", ["<", ">"])
def test_simple_packet_blocks_stay_simple(order: str) -> None:
    head = section(order) + interface_block(1, len(CLEAR), order)
    source = head + simple(FRAME, order=order) + simple(FRAME, 2000, order)
    quiet = PacketEdit((CleartextMessage(message()),))
    assert written(source, {1: quiet}) == head + simple(CLEAR, order=order) + simple(FRAME, 2000, order)
    assert written(source, {2: replace(quiet, keep=True)}) == source + simple(CLEAR, order=order)
    unlimited = section(order) + interface_block(1, 0, order)
    assert written(unlimited + simple(FRAME, order=order), {1: quiet}) == unlimited + simple(CLEAR, order=order)
    out, result = run(source, {1: EDIT, 2: EDIT})
    assert out == head + simple(CLEAR, order=order) * 2
    ((number, warning),) = result.warnings
    assert (number, warning.split(":")[0]) == (1, "2 packets in clear have no comment")


def test_a_simple_packet_longer_than_the_snapshot_length_is_not_written() -> None:
    source = section() + interface_block(1, len(CLEAR) - 1) + simple(FRAME) + simple(FRAME)
    out, result = run(source, {2: EDIT})
    assert out == source
    assert (result.replaced, result.unchanged) == (0, 1)
    ((number, warning),) = result.warnings
    assert number == 2
    assert warning == f"in clear it is longer than the snapshot length of {len(CLEAR) - 1} bytes: left unchanged"


def test_a_block_that_counts_its_packet_without_padding() -> None:
    padded = enhanced(FRAME + b"xyz")  # 137 bytes, so 3 of padding
    short = struct.pack("<I", len(padded) - 3)
    wrong = padded[:4] + short + padded[8:-4] + short
    head = section() + interface_block()
    assert written(head + wrong * 2, {1: EDIT}) == head + enhanced(CLEAR, options=option(1, b"why") + END) + wrong


def test_a_comment_of_the_file() -> None:
    more = option(1, "für alle".encode())
    assert written(pcap([]), {}, "für alle") == head_of_pcap(9, more=more)
    names = option(4, b"editor") + option(1, b"there before")
    source = section(options=names + END) + interface_block() + section(">")
    new = section(options=names + more + END) + interface_block() + section(">")
    assert written(source, {}, "für alle") == new


# ---- frame check sequences


def fcs(frame: bytes) -> bytes:
    return zlib.crc32(frame).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("told", "flags", "has"),
    [
        (None, None, False),
        (0, None, False),
        (32, None, True),
        (4, None, True),  # as older readers and writers understood the option
        (None, 4, True),
        (32, 2, False),
        (32, 0, True),
        (None, 2, False),
    ],
)
def test_a_frame_check_sequence_where_readers_expect_one(told, flags, has) -> None:
    head = section() + interface_block(options=b"" if told is None else option(13, bytes([told])) + END)
    options = b"" if flags is None else option(2, struct.pack("<I", 1 | flags << 5)) + END
    kept = b"" if flags is None else option(2, struct.pack("<I", 1 | (flags if has else 0) << 5))
    new = CLEAR + fcs(CLEAR) if has else CLEAR
    assert written(head + enhanced(FRAME + fcs(FRAME), options=options), {1: EDIT}) == head + enhanced(
        new, options=kept + option(1, b"why") + END
    )


def test_a_frame_check_sequence_in_pcap() -> None:
    source = pcap([Packet(TIME, FRAME + fcs(FRAME))], linktype=1 | 1 << 26 | 2 << 28)
    new = pcapng_file.packet_block(Packet(TIME, CLEAR + fcs(CLEAR), comment="why"), Interface())
    head = head_of_pcap(9).replace(
        interface_block(1, 262144, options=option(9, b"\x09") + END),
        interface_block(1, 262144, options=option(9, b"\x09") + option(13, b"\x20") + END),
    )
    assert written(source, {1: EDIT}) == head + new


# ---- fragments and TCP


def test_ip_fragments_of_a_message_become_one_packet() -> None:
    whole = udp_packet(encrypted(3000), 4500, 4500)[20:]
    old = [link.ethernet(ip_fragment) for ip_fragment in ip_fragments(ip.ipv4(whole, ident=5), 1500)]
    clear = CleartextMessage(message(3500), "3 IP fragments", (4500, 4500))
    packets = [Packet(TIME + n, frame) for n, frame in enumerate([*old, FRAME])]
    edits = {1: PacketEdit(into=3), 2: PacketEdit(into=3), 3: PacketEdit((clear,))}
    new = link.ethernet(ip.ipv4(udp_packet(bytes(4) + message(3500), 4500, 4500)[20:], ident=5))
    expected = [Packet(TIME + 2, new, comment="3 IP fragments"), packets[3]]
    out, result = run(pcapng(packets), edits)
    assert out == pcapng(expected)
    assert (result.packets, result.written, result.replaced, result.removed) == (4, 2, 1, 2)


def test_messages_of_a_tcp_segment_follow_it() -> None:
    payload = tcp_framed(encrypted()) + tcp_framed(encrypted()) + b"\0"
    segment = link.ethernet(ip.ipv4(tcp(payload, 40000, 4500, 1, 1), protocol=ip.TCP))
    old = Packet(TIME, segment)
    edit = PacketEdit((CleartextMessage(message(1), "one"), CleartextMessage(message(2))), keep=True)
    new = [
        Packet(TIME, link.ethernet(udp_packet(bytes(4) + message(size), 40000, 4500)), comment=comment)
        for size, comment in ((1, f"one; {IN_TCP}"), (2, IN_TCP))
    ]
    out, result = run(pcapng([old, old]), {1: edit})
    assert out == pcapng([old, *new, old])
    assert (result.packets, result.written, result.inserted, result.replaced) == (2, 4, 2, 0)


# ---- what cannot be done


def test_a_message_that_is_too_long_stays_with_all_its_fragments() -> None:
    source = pcapng([Packet(TIME, FRAME)] * 5)
    edits = {
        1: PacketEdit(into=3),
        2: PacketEdit(into=4),
        3: PacketEdit((CleartextMessage(bytes(MAX_MESSAGE_BYTES + 1)),)),
        4: EDIT,
        5: PacketEdit(into=77),
    }
    out, result = run(source, edits)
    assert out == pcapng([Packet(TIME, FRAME), Packet(TIME, FRAME), Packet(TIME, CLEAR, comment="why")])
    assert (result.replaced, result.removed, result.unchanged) == (1, 2, 2)
    what = "a message of 65462 bytes does not fit into an IP packet: left unchanged"
    assert result.warnings == [(3, what)]


def test_frames_that_cannot_take_a_message() -> None:
    packets = [
        Packet(TIME, FRAME),
        Packet(TIME, link.ethernet(b"", 0x0806)),
        Packet(TIME, FRAME[:20]),
        Packet(TIME, ENCRYPTED, 1),
        Packet(TIME, b"", 0),
        Packet(TIME, link.ethernet(ip.ipv4(b"esp-esp-esp", protocol=50))),
    ]
    form = {"interfaces": [Interface(), Interface(147)]}
    out, result = run(pcapng(packets, **form), dict.fromkeys(range(1, 7), EDIT))
    assert out == pcapng([Packet(TIME, CLEAR, comment="why"), *packets[1:]], **form)
    assert sorted(result.warnings) == [
        (2, "it has no IP packet: left unchanged"),
        (3, "its IPv4 header is truncated or invalid: left unchanged"),
        (4, "link type LINKTYPE_USER0 is not decoded: left unchanged"),
        (5, "it has no IP packet: left unchanged"),
        (6, "the packet has IP protocol 50, which is neither UDP nor TCP: left unchanged"),
    ]
    assert (result.replaced, result.unchanged) == (1, 5)


def test_warnings_are_counted_when_there_are_too_many() -> None:
    source = pcap([Packet(TIME, b"no frame")] * 1005)
    _, result = run(source, dict.fromkeys(range(1, 1006), EDIT))
    assert len(result.warnings) == 1001
    assert result.warnings[-1] == (None, "5 more such packets, counted but not listed")
    assert result.unchanged == 1005


def test_edits_behind_the_end() -> None:
    _, result = run(pcap([Packet(TIME, FRAME)] * 2), {2: EDIT, 3: EDIT, 99: PacketEdit()})
    assert result.warnings == [(None, "2 packets to be written in clear do not exist: the capture has 2")]


@pytest.mark.parametrize("form", [pcap, pcapng])
def test_a_cut_capture_is_written_up_to_there(form) -> None:
    source = form([Packet(TIME, FRAME)] * 3)
    whole = [Packet(TIME, CLEAR, comment="why"), Packet(TIME, FRAME)]
    blocks = b"".join(pcapng_file.packet_block(packet, Interface()) for packet in whole)
    for cut in range(1, len(source) - len(form([Packet(TIME, FRAME)] * 2))):
        out, result = run(source[:-cut], {1: EDIT})
        head = head_of_pcap(9) if form is pcap else pcapng([])
        assert out == head + blocks
        assert result.damage is not None
        assert result.damage.startswith("damaged at byte ")
        assert "the file ends inside" in result.damage
        assert result.warnings == [(None, f"{result.damage}; written up to there")]


def test_a_damaged_block() -> None:
    good = pcapng([Packet(TIME, FRAME)])
    out, result = run(good + enhanced(FRAME, number=9) + enhanced(FRAME), {1: EDIT})
    assert out == pcapng([Packet(TIME, CLEAR, comment="why")])
    assert "interface 9" in (result.damage or "")


@pytest.mark.parametrize("data", [b"", b"GET / HTTP/1.1", pcap([])[:20], section()[:20]])
def test_what_is_no_capture_leaves_no_file(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "in").write_bytes(data)
    with pytest.raises(CaptureError):
        rewrite_capture(str(tmp_path / "in"), str(tmp_path / "out"), {})
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_link_type_without_room() -> None:
    with pytest.raises(CaptureError, match="link type 65536 does not fit into pcapng"):
        run(pcap([], linktype=65536), {})


def test_what_is_in_clear_is_not_shown() -> None:
    assert "secret" not in repr(PacketEdit((CleartextMessage(b"a secret"),)))


# ---- files and streams


@pytest.mark.parametrize("through", ["", "link", "./"])
def test_the_source_is_not_written_over(tmp_path: Path, through: str) -> None:
    path = tmp_path / "in"
    path.write_bytes(pcap([]))
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(CaptureError, match="is also the output"):
        rewrite_capture(str(path), f"{tmp_path}/{through}{'' if through == 'link' else 'in'}", {})
    with path.open("ab") as out, pytest.raises(CaptureError, match="is also the output"):
        rewrite_capture(str(path), out, {})
    assert path.read_bytes() == pcap([])


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(pcap([Packet(TIME, FRAME)] * 99))
    with pytest.raises(OSError, match="No space"):
        rewrite_capture(str(path), "/dev/full", {})


def test_compressed_standard_input_to_standard_output() -> None:
    packets = [Packet(TIME, FRAME), Packet(TIME + 1, FRAME)]
    program = (
        "from ikeanalyze.capture.write.rewrite import PacketEdit, rewrite_capture\n"
        "result = rewrite_capture('-', '-', {1: PacketEdit()})\n"
        "assert (result.packets, result.written) == (2, 1)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=gzip.compress(pcapng(packets)), capture_output=True, cwd=ROOT
    )
    assert (done.stdout, done.stderr) == (pcapng(packets[1:]), b"")


def test_progress_ends_with_the_size_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(pcap([Packet(TIME, FRAME)] * 99))
    seen: list[tuple[int, int | None]] = []
    rewrite_capture(str(path), io.BytesIO(), {}, progress=lambda *now: seen.append(now))
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)


# ---- as tshark sees it

tshark = pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
CHECKED = ["-oudp.check_checksum:TRUE", "-oip.check_checksum:TRUE"]


def fields(path: Path, *names: str) -> list[list[str]]:
    command = [
        "tshark",
        "-n",
        "-r",
        str(path),
        *CHECKED,
        "-Tfields",
        *(x for name in names for x in ("-e", name)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


def frame_bytes(path: Path) -> list[str]:
    command = ["tshark", "-n", "-r", str(path), "-Tjsonraw", "-jframe", "--no-duplicate-keys"]
    done = subprocess.run(command, capture_output=True, check=True)
    return [load["_source"]["layers"]["frame_raw"][0] for load in json.loads(done.stdout)]


@pytest.mark.tshark
@tshark
@pytest.mark.parametrize("name", ["ip-fragments-loss10.pcap", "eap-md5-radius.pcapng"])
def test_recorded_captures(tmp_path: Path, name: str) -> None:
    source, out = CAPTURES / name, tmp_path / "out.pcapng"
    columns = read_frames(str(source)).columns
    shown = ike.message(SPI, SPI, 37, 8, 7, [ike.notify(16403), ike.notify(16417, b"in clear")])
    edits = {}
    for row in range(0, len(columns["number"]), 3):
        ports = int(columns["source_port"][row]), int(columns["destination_port"][row])
        if columns["spi_i"][row]:
            edits[int(columns["number"][row])] = PacketEdit((CleartextMessage(shown, f"frame {row}, epoch 0", ports),))
    gone, followed, *_ = edits
    edits |= {gone: PacketEdit(), followed: replace(edits[followed], keep=True)}
    result = rewrite_capture(str(source), str(out), edits)
    assert not result.warnings
    kept = ("frame.time_epoch", "frame.interface_name", "ip.src", "ip.dst", "ip.ttl")
    new = (
        "frame.comment",
        "isakmp.notify.msgtype",
        "ip.checksum.status",
        "udp.checksum.status",
        "udp.srcport",
    )
    before, after = fields(source, *kept, "frame.len"), fields(out, *kept, "frame.len", *new)
    if source.suffix == ".pcap":  # which has no names of interfaces
        for row in (*before, *after):
            row[1] = ""
    old_bytes, new_bytes = frame_bytes(source), frame_bytes(out)
    assert len(after) == len(before) - 1 + 1 == result.written
    at = 0
    for number, packet in enumerate(before, 1):
        edit = edits.get(number, PacketEdit(keep=True))
        if edit.keep:
            assert after[at][:6] == packet
            assert new_bytes[at] == old_bytes[number - 1]
            assert after[at][6] == ""
            at += 1
        for one in edit.clear:
            assert after[at][:5] == packet[:5]
            assert after[at][6:] == [one.comment, "16403,16417", "1", "1", str(one.ports[0])]
            at += 1
    assert at == len(after)


@pytest.mark.tshark
@tshark
def test_every_link_type(tmp_path: Path) -> None:
    kinds = [*LINKS, (1, link.padded), (1, link.pppoe), (229, link.raw)]
    ends = {4: ("192.0.2.1", "192.0.2.2"), 6: ("2001:db8::1", "2001:db8::2")}
    packets = [
        Packet(TIME, framer(udp_packet(encrypted(), 500, 500, *ends[version])), index)
        for index, (kind, framer) in enumerate(kinds)
        for version in (4, 6)
        if (kind, version) not in ((228, 6), (229, 4))
    ]
    names = [Interface(kind, name=f"if{index}") for index, (kind, _) in enumerate(kinds)]
    (tmp_path / "in").write_bytes(pcapng(packets, interfaces=names))
    rewrite_capture(str(tmp_path / "in"), str(tmp_path / "out"), dict.fromkeys(range(1, len(packets) + 1), EDIT))
    result = fields(
        tmp_path / "out",
        "isakmp.notify.msgtype",
        "udp.checksum.status",
        "_ws.malformed",
        "frame.interface_name",
    )
    assert result == [["16384", "1", "", names[packet.interface].name] for packet in packets]


@pytest.mark.tshark
@tshark
def test_frames_longer_than_the_snapshot_length_are_read_whole(tmp_path: Path) -> None:
    source, out, again = (tmp_path / name for name in ("in", "out", "again"))
    source.write_bytes(pcapng([Packet(TIME, FRAME)] * 2, interfaces=[Interface(snaplen=len(FRAME))]))
    rewrite_capture(str(source), str(out), {2: PacketEdit((CleartextMessage(message(3000)),))})
    subprocess.run(["editcap", str(out), str(again)], check=True, capture_output=True)
    for path in (out, again):
        result = fields(path, "frame.len", "frame.cap_len", "isakmp.notify.msgtype", "udp.checksum.status")
        size = str(len(link.ethernet(udp_packet(message(3000)))))
        assert result[1] == [size, size, "16384", "1"]
    columns = read_frames(str(out)).columns
    assert columns["captured"].tolist() == columns["bytes"].tolist() == [len(FRAME), int(size)]


@pytest.mark.tshark
@tshark
@pytest.mark.parametrize("form", ["pcap", "pcapng", "flags"])
def test_a_frame_check_sequence_is_right(tmp_path: Path, form: str) -> None:
    frame = FRAME + fcs(FRAME)
    reported = {
        "pcap": pcap([Packet(TIME, frame)], linktype=1 | 1 << 26 | 2 << 28),
        "pcapng": section() + interface_block(options=option(13, b"\x20") + END) + enhanced(frame),
        "flags": section() + interface_block() + enhanced(frame, options=option(2, struct.pack("<I", 4 << 5)) + END),
    }
    (tmp_path / "in").write_bytes(reported[form])
    rewrite_capture(str(tmp_path / "in"), str(tmp_path / "out"), {1: EDIT})
    command = ["tshark", "-n", "-r", str(tmp_path / "out"), "-oeth.check_fcs:TRUE", *CHECKED, "-Tfields"]
    command += [x for name in ("eth.fcs.status", "eth.trailer", "udp.checksum.status") for x in ("-e", name)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "1\t\t1\n"
