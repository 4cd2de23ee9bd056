"""Generate a large capture: python -m benchmarks.generate ike-heavy --size 1GiB -o FILE

ike-heavy: IKEv2 handshakes with ML-KEM-768, a thousand a second, 2 % of their messages retransmitted.
esp-heavy: ESP in UDP; one packet in a thousand is IKE or a NAT keepalive.
FILE.truth.json has the expected counts, computed from the schedule that the file is generated from.

UDP checksums are 0 (none, RFC 768) on IPv4, and correct on IPv6. Kind, size and seed determine the file.
"""

import argparse
import json
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from benchmarks.files import get_truth_path, parse_size
from benchmarks.patterns import RECORD_HEADER, Template
from benchmarks.schedule import FILE_HEADER, PLANS, Ints, Plan

CHUNK = 32 << 20
Bytes = npt.NDArray[np.uint8]


def generate(kind: str, size: int, path: Path, seed: int = 1) -> dict[str, Any]:
    """Write the capture and its expected counts, and return the counts."""
    plan = PLANS[kind](size, seed)
    truth = {"kind": kind, "seed": seed, "size": size, **plan.truth()}
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as out:
        truth["file_bytes"] = write(plan, out, np.random.default_rng([seed, 1]))
    partial.replace(path)
    get_truth_path(path).write_text(json.dumps(truth, indent=2) + "\n")
    return truth


def write(plan: Plan, out: BinaryIO, rng: np.random.Generator) -> int:
    """Write the file in chunks; returns its size in bytes."""
    out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
    sizes = plan.record_bytes[plan.frames.template]
    ends = np.cumsum(sizes)
    wanted = np.unique(plan.frames.copy_of[plan.frames.copy_of >= 0])
    kept: dict[int, Bytes] = {}
    for first, last in _chunks(ends):
        start = ends[first] - sizes[first]
        offsets = ends[first:last] - sizes[first:last] - start
        total = int(ends[last - 1] - start)
        chunk = rng.integers(0, 2**64, total // 8 + 1, np.uint64).view(np.uint8)[:total]
        numbers = plan.frames.template[first:last]
        order = np.argsort(numbers, kind="stable")
        bounds = np.searchsorted(numbers[order], np.arange(len(plan.templates) + 1))
        for number, template in enumerate(plan.templates):
            rows = order[bounds[number] : bounds[number + 1]]
            if len(rows):
                _fill(chunk, offsets[rows], template, plan, rows + first, rng)
        _copy(chunk, offsets, sizes[first:last], plan.frames.copy_of[first:last], first, wanted, kept)
        out.write(chunk.data)
    return FILE_HEADER + int(ends[-1])


def _chunks(ends: Ints) -> Iterator[tuple[int, int]]:
    first = 0
    while first < len(ends):
        begin = ends[first - 1] if first else 0
        last = max(int(np.searchsorted(ends, begin + CHUNK)), first + 1)
        yield first, last
        first = last


def _fill(chunk: Bytes, offsets: Ints, template: Template, plan: Plan, rows: Ints, rng: np.random.Generator) -> None:
    """Write the bytes of frames of one template that are not random."""
    values = np.tile(template.data[template.fixed], (len(rows), 1))

    def put(at: int, column: npt.NDArray[Any], form: str) -> None:
        """Write one number per frame at an offset of the record."""
        data = np.ascontiguousarray(column.astype(form)).view(np.uint8).reshape(len(rows), -1)
        values[:, at : at + data.shape[1]] = data

    frames, peers = plan.frames, plan.peers
    peer = frames.peer[rows]
    length = len(template.data) - RECORD_HEADER
    put(0, frames.time_us[rows] // 1_000_000, "<u4")
    put(4, frames.time_us[rows] % 1_000_000, "<u4")
    put(8, np.full(len(rows), length), "<u4")
    put(12, np.full(len(rows), length), "<u4")

    ends = [(peers.initiator[peer], peers.ports[peer, int(template.natt)])]
    ends.append((peers.responder[peer], np.full(len(rows), 4500 if template.natt else 500, np.uint16)))
    (source, sport), (destination, dport) = ends if template.from_initiator else ends[::-1]
    ip = template.ip
    if template.version == 4:
        values[:, ip + 12 : ip + 16] = source[:, 12:]
        values[:, ip + 16 : ip + 20] = destination[:, 12:]
        put(ip + 4, rng.integers(0, 65536, len(rows)), ">u2")
        put(ip + 10, _checksum(values[:, ip : ip + 20]), ">u2")
        transport = ip + 20
    else:
        values[:, ip + 8 : ip + 24] = source
        values[:, ip + 24 : ip + 40] = destination
        transport = ip + 40
    if template.udp:
        put(transport, sport, ">u2")
        put(transport + 2, dport, ">u2")
    if template.traffic == "ike":
        put(template.body, peers.spis[peer, 0], ">u8")
        if template.spi_r:
            put(template.body + 8, peers.spis[peer, 1], ">u8")
    elif template.traffic == "esp":
        put(template.body, peers.esp_spis[peer, int(not template.from_initiator)], ">u4")
        put(template.body + 4, frames.sequence[rows], ">u4")
    chunk[offsets[:, None] + template.fixed] = values

    if template.version == 6 and template.udp:
        # RFC 8200, section 8.1: the pseudo-header has both addresses, the length and the protocol
        segment = chunk[offsets[:, None] + np.arange(transport, len(template.data))]
        tail = struct.pack(">I3xB", segment.shape[1], 17)
        pseudo = np.tile(np.frombuffer(tail, np.uint8), (len(rows), 1))
        total = _checksum(np.concatenate([source, destination, pseudo, segment], axis=1))
        total[total == 0] = 0xFFFF
        for byte, shift in enumerate((8, 0)):
            chunk[offsets + transport + 6 + byte] = total >> shift & 0xFF


def _checksum(data: Bytes) -> Ints:
    """The Internet checksum of each row."""
    if data.shape[1] % 2:
        data = np.pad(data, ((0, 0), (0, 1)))
    total = np.ascontiguousarray(data).view(">u2").astype(np.int64).sum(axis=1)
    while (total >> 16).any():
        total = (total & 0xFFFF) + (total >> 16)
    result: Ints = ~total & 0xFFFF
    return result


def _copy(
    chunk: Bytes,
    offsets: Ints,
    sizes: Ints,
    copy_of: Ints,
    first: int,
    wanted: Ints,
    kept: dict[int, Bytes],
) -> None:
    """Keep the frames that are repeated later, and copy earlier ones, without the record header."""
    low, high = np.searchsorted(wanted, [first, first + len(offsets)])
    for row in wanted[low:high].tolist():
        at, size = int(offsets[row - first]), int(sizes[row - first])
        kept[row] = chunk[at + RECORD_HEADER : at + size].copy()
    for row in np.flatnonzero(copy_of >= 0).tolist():
        at = int(offsets[row])
        chunk[at + RECORD_HEADER : at + int(sizes[row])] = kept[int(copy_of[row])]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.generate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kind", choices=sorted(PLANS))
    parser.add_argument("--size", type=parse_size, default="1GiB", help="size of the file (default: 1GiB)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    options = parser.parse_args()
    begin = time.perf_counter()
    truth = generate(options.kind, options.size, options.output, options.seed)
    print(json.dumps(truth))
    print(f"{options.output}: {time.perf_counter() - begin:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
