"""Damaged captures, read by ikeanalyze and by tshark: the same frames have the same IKE header.

The mutations are the same in each run. What one of the two does not read as IKE has a reason, which the functions
`explain_*` look for in the frame itself.
"""

import re
import struct
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from random import Random

import dpkt
import pytest

from fuzz.mutators.binary import mutate_bytes
from fuzz.mutators.captures import mutate_capture
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.capture.frames import read_frames
from tests.craft import Packet, pcap, pcapng
from tests.paths import CAPTURES

RECORDINGS = (
    "psk-classic", "pq-mlkem768-psk", "eap-md5-radius", "ikev1-xauth", "mobike", "invalid-ke", "pq-followup-ke",
    "ikev1-fragments-loss15",
)  # fmt: skip
#: Packets of each recording.
PACKETS = 40
START_NS = 10**18
FIELDS = (
    "frame.number", "frame.len", "frame.time_epoch", "frame.protocols", "isakmp.ispi", "isakmp.rspi", "isakmp.version",
    "isakmp.exchangetype", "isakmp.flags", "isakmp.messageid", "isakmp.length", "isakmp.nextpayload", "udp.length",
    "udp.srcport", "udp.dstport", "ip.len",
)  # fmt: skip
DAMAGED = ("appears to be damaged or corrupt", "appears to have been cut short", "TShark doesn't support")
IP_HEADER, UDP_HEADER, IKE_HEADER, MARKER = 20, 8, 28, 4
#: IKE header, generic payload header, numbers.
SKF, IKEV1_FRAGMENT, FRAGMENT_END = 53, 132, 36


@dataclass(frozen=True, slots=True)
class Seen:
    """A frame with an IKE message, as one of the two programs reads it."""

    spi_i: int
    spi_r: int
    version: int
    exchange_type: int
    flags: int
    message_id: int
    length: int
    time_ns: int


def recorded_packets():
    """Ethernet frames with UDP in IPv4, without IP fragments, whose reassembly depends on other frames."""
    found = []
    for name in RECORDINGS:
        (path,) = CAPTURES.glob(f"{name}.pcap*")
        with path.open("rb") as file:
            reader = dpkt.pcapng.Reader(file) if path.suffix == ".pcapng" else dpkt.pcap.Reader(file)
            frames = [bytes(frame) for _, frame in reader]
        found += [
            frame for frame in frames if frame[12:14] == b"\x08\0" and frame[23] == 17 and not is_fragment(frame)
        ][:PACKETS]
    return found


def is_fragment(frame):
    return int.from_bytes(frame[20:22]) & 0x3FFF != 0


def read_ours(path):
    capture = read_frames(str(path), spis=None)
    columns = capture.columns
    names = ("number", "protocol", "spi_i", "spi_r", "exchange_type", "flags", "message_id", "ike_bytes", "time_ns")
    rows = zip(*(columns[name].tolist() for name in names), strict=True)
    versions = {Protocol.IKEV1: 1, Protocol.IKEV2: 2}
    found = {
        number: Seen(spi_i, spi_r, versions[protocol], *rest)
        for number, protocol, spi_i, spi_r, *rest in rows
        if protocol in versions
    }
    return capture, found


def read_tshark(tshark, data):
    words = [word for name in FIELDS for word in ("-e", name)]
    done = tshark.run("-n", "-Tfields", "-Eoccurrence=f", "-Eseparator=|", *words, capture=data)
    assert done.status == 0 or any(text in done.stderr for text in DAMAGED), done.stderr
    return {
        int(row["frame.number"]): row
        for row in (dict(zip(FIELDS, line.split("|"), strict=True)) for line in done.lines)
    }


def number(text):
    """A field's number: decimal, or hexadecimal with 0x; 0 if it is empty."""
    return int(text, 0) if text else 0


def parse_time(seconds):
    """Nanoseconds; None outside of the years 1970 to 2106, which tshark writes in several ways."""
    if not re.fullmatch(r"\d+\.\d{9}", seconds):
        return None
    time_ns = int(seconds.replace(".", ""))
    return time_ns if time_ns < 2**32 * 10**9 else None


def differs(ours, row):
    """Whether a field of tshark is another than ours. Packets that are cut have only the first fields."""
    theirs = {
        "spi_i": int(row["isakmp.ispi"], 16) if row["isakmp.ispi"] else None,
        "spi_r": int(row["isakmp.rspi"], 16) if row["isakmp.rspi"] else None,
        "version": number(row["isakmp.version"]) >> 4 if row["isakmp.version"] else None,
        "exchange_type": number(row["isakmp.exchangetype"]) if row["isakmp.exchangetype"] else None,
        "flags": number(row["isakmp.flags"]) if row["isakmp.flags"] else None,
        "message_id": number(row["isakmp.messageid"]) if row["isakmp.messageid"] else None,
        "length": number(row["isakmp.length"]) if row["isakmp.length"] else None,
        "time_ns": parse_time(row["frame.time_epoch"]),
    }
    return {name: value for name, value in theirs.items() if value is not None and value != getattr(ours, name)}


def explain_ours_only(row):
    """Why tshark does not read a frame as IKE that ikeanalyze does."""
    layers = row["frame.protocols"].split(":")
    if "udp" in layers and 0 <= number(row["udp.length"]) < UDP_HEADER:
        return "tshark refuses a UDP length that has no room for the header; ikeanalyze takes that of IP"
    if "udp" in layers and layers[layers.index("udp") + 1 :] not in ([], ["data"], ["udpencap"]):
        return "tshark knows another protocol on the other port"
    return None


def explain_tshark_only(row, frame):
    """Why ikeanalyze counts a frame as malformed that tshark shows as IKE."""
    if is_fragment(frame):
        return "an IP fragment whose datagram is incomplete"
    marker = MARKER if "udpencap" in row["frame.protocols"] else 0
    room = min(number(row["udp.length"]), number(row["ip.len"]) - IP_HEADER) - UDP_HEADER - marker
    length, version = number(row["isakmp.length"]), number(row["isakmp.version"]) >> 4
    if not IKE_HEADER <= length <= room:
        return "the length in the IKE header does not fit into the datagram"
    if version not in (1, 2):
        return "an unknown version"
    start = frame.find(bytes.fromhex(row["isakmp.ispi"] + row["isakmp.rspi"]))
    first, second = struct.unpack_from(">HH", frame[start:].ljust(FRAGMENT_END, b"\0"), FRAGMENT_END - 4)
    kind = number(row["isakmp.nextpayload"])
    if kind == SKF and (length < FRAGMENT_END or not 1 <= first <= second):
        return "no valid fragment number (RFC 7383, section 2.6)"
    if kind == IKEV1_FRAGMENT and (length < FRAGMENT_END or second >> 8 == 0):
        return "no valid fragment number"
    return None


def compare(tshark, tmp_path, data, frames, ignored=()):
    """Compare all frames; return how many both read as IKE, and how many tshark alone.

    `frames`: their bytes, by number from 1. `ignored`: fields that are not compared.
    """
    path = tmp_path / "mutated"
    path.write_bytes(data)
    capture, ours = read_ours(path)
    theirs = read_tshark(tshark, data)
    ike = {
        ident: row
        for ident, row in theirs.items()
        if row["isakmp.ispi"] and "icmp" not in row["frame.protocols"]  # ICMP errors quote messages
    }
    # tshark stops at blocks with damaged options, which ikeanalyze does not need
    assert len(theirs) <= capture.packets
    ours = {ident: seen for ident, seen in ours.items() if ident <= len(theirs)}
    both = ours.keys() & ike.keys()
    wrong = {ident: differs(ours[ident], ike[ident]) for ident in both}
    assert {ident: fields for ident, fields in wrong.items() if fields.keys() - set(ignored)} == {}
    ours_only = {ident: theirs[ident] for ident in ours.keys() - both if not is_fragment(frames[ident])}
    assert {ident: row for ident, row in ours_only.items() if explain_ours_only(row) is None} == {}
    theirs_only = {ident: ike[ident] for ident in ike.keys() - both}
    assert {ident: row for ident, row in theirs_only.items() if explain_tshark_only(row, frames[ident]) is None} == {}
    # and ikeanalyze names each of them, unless it is an IP fragment
    named = {ident for ident, _ in capture.warnings}
    assert {ident for ident in theirs_only if not is_fragment(frames[ident])} <= named
    return len(both), len(theirs_only)


@pytest.mark.parametrize("seed", [1, 2])
def test_packets_with_changed_bytes(tshark, tmp_path, seed):
    rng, packets = Random(seed), recorded_packets()
    frames = [mutate_bytes(rng.choice(packets), rng, same_size=True) for _ in range(1000)]
    data = pcap([Packet(START_NS + 10**6 * index, frame) for index, frame in enumerate(frames)])
    both, refused = compare(tshark, tmp_path, data, dict(enumerate(frames, 1)))
    assert both > 600
    assert refused > 30


@cache
def make_mutated_capture(make, seed):
    """A capture after 75 mutations, without those that remove many packets or make the file unreadable."""
    data = make([Packet(START_NS + 10**6 * index, frame) for index, frame in enumerate(recorded_packets())])
    rng, done, packets = Random(seed), 0, len(read_packets(data))
    while done < 75:
        mutated = mutate_capture(data, rng)
        if mutated[:24] == data[:24] and len(read_packets(mutated)) >= packets - 2:
            data, done, packets = mutated, done + 1, len(read_packets(mutated))
    return data


def read_packets(data):
    """The packets of a capture; none if dpkt cannot read it to its end, or if they are not Ethernet."""
    try:
        reader = (dpkt.pcapng.Reader if data[:4] == b"\n\r\r\n" else dpkt.pcap.Reader)(BytesIO(data))
        return [bytes(packet) for _, packet in reader] if reader.datalink() == dpkt.pcap.DLT_EN10MB else []
    except (ValueError, struct.error, dpkt.UnpackError, MemoryError, OverflowError):
        return []


@pytest.mark.parametrize("make", [pcap, pcapng], ids=["pcap", "pcapng"])
def test_captures_with_changed_records(tshark, tmp_path, make):
    """Four files with 75 mutations each: packets dropped, doubled, swapped, cut and changed, absurd times."""
    # tshark's 64 bits overflow for if_tsresol above 9; test_pcapng.py checks times against exact arithmetic
    ignored = ("time_ns",) if make is pcapng else ()
    total = 0
    for seed in range(4):
        data = make_mutated_capture(make, seed)
        both, _ = compare(tshark, tmp_path, data, dict(enumerate(read_packets(data), 1)), ignored)
        total += both
    assert total > 150
