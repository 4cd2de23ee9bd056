"""Reads captures, and holds what is found against two laws: packets are accounted for, no byte is lost."""

import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from ikeanalyze.capture.frames import CaptureFrames, read_frames
from tests.craft import Interface, Packet, Trace, pcap, pcapng

KEPT = ("ike", "radius", "hip")


def obey(capture: CaptureFrames, path: Path | None = None) -> CaptureFrames:
    columns = capture.columns
    assert sum(capture.accounting.values()) == capture.packets
    assert sum(capture.accounting_bytes.values()) == capture.bytes
    assert all(count >= 0 for count in capture.accounting.values())
    kept = sum(capture.accounting[name] for name in KEPT)
    kept_bytes = sum(capture.accounting_bytes[name] for name in KEPT)
    assert len(np.unique(columns["number"])) == kept
    assert int(columns["bytes"].astype(np.int64).sum()) == kept_bytes
    if len(columns["number"]):
        assert columns["number"].min() >= 1
        assert columns["number"].max() <= capture.packets
    assert set(capture.clear) <= set(columns["datagram"].tolist())
    assert len({len(column) for column in columns.values()}) == 1
    return capture


def read(data: bytes, ports: Collection[int] = (), spis: Collection[int] | None = ()) -> CaptureFrames:
    """The frames of a capture file."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return obey(read_frames(file.name, ports, spis=spis))


def read_trace(trace: Trace, ports: Collection[int] = ()) -> CaptureFrames:
    """The frames of a trace, and the bytes on the wire that its packets have."""
    capture = read(trace.pcap(), ports)
    assert capture.packets == len(trace.packets)
    assert capture.bytes == sum(packet.wire_length for packet in trace.packets)
    return capture


def read_packets(*frames: bytes, linktype: int = 1, ports: Collection[int] = ()) -> CaptureFrames:
    """The frames of a capture that holds these, a millisecond apart."""
    packets = [Packet(10**18 + number * 10**6, data) for number, data in enumerate(frames)]
    return read(pcap(packets, linktype=linktype), ports)


def read_mixed(*frames: tuple[int, bytes]) -> CaptureFrames:
    """The frames of a pcapng capture with an interface of each link type."""
    return read(mixed(*frames))


def mixed(*frames: tuple[int, bytes]) -> bytes:
    kinds = list(dict.fromkeys(kind for kind, _ in frames))
    packets = [Packet(10**18 + n * 10**6, data, kinds.index(kind)) for n, (kind, data) in enumerate(frames)]
    return pcapng(packets, interfaces=[Interface(kind) for kind in kinds])


def counted(capture: CaptureFrames) -> dict[str, int]:
    """The accounting without what there is none of."""
    return {name: count for name, count in capture.accounting.items() if count}


def rows(capture: CaptureFrames, *names: str) -> list[tuple[int, ...]]:
    """These columns of the frames."""
    return list(zip(*(capture.columns[name].tolist() for name in names), strict=True))


def bytes_by_datagram(capture: CaptureFrames) -> dict[int, int]:
    sums: dict[int, int] = {}
    for datagram, size in rows(capture, "datagram", "bytes"):
        sums[datagram] = sums.get(datagram, 0) + size
    return sums


def texts(capture: CaptureFrames) -> list[str]:
    return [value for _, value in capture.warnings]


def total(packets: Sequence[Packet]) -> int:
    return sum(packet.wire_length for packet in packets)
