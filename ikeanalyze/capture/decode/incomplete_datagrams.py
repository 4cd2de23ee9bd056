"""Recognise the message of a datagram of which the capture lacks bytes."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ikeanalyze.capture.arrays import find_rows
from ikeanalyze.capture.decode.classify import HEADER_COLUMNS


def share_digests(
    columns: dict[str, npt.NDArray[np.generic]], incomplete: set[int], clear: Mapping[int, bytes]
) -> None:
    """Give incomplete datagrams the digest of the message that they repeat, in place.

    Transmissions of one message are matched by digest, and that of a transmission with missing bytes differs. It is
    replaced by the digest of a transmission with the same IKE header, length included. Cleartext payloads must also
    agree as far as they were captured, because IKE_SA_INIT requests with different payloads may have the same header.

    Args:
        columns: of all kept frames.
        incomplete: datagrams with missing bytes (an IP fragment or a TCP segment is not in the capture).
        clear: captured bytes of the datagrams that can be read without keys.
    """
    if not incomplete:
        return
    datagram, digest = columns["datagram"], columns["digest"]
    missing = np.isin(datagram, np.fromiter(incomplete, np.uint32))
    rows = find_rows(np.isin(columns["spi_i"], columns["spi_i"][missing]))
    headers = list(zip(*(columns[name][rows].tolist() for name in HEADER_COLUMNS), strict=True))
    # complete datagrams first, then the longest: each datagram is compared with the datagrams before it
    seen: dict[tuple[int, ...], list[int]] = {}
    first: dict[int, int] = {}
    header: dict[int, tuple[int, ...]] = {}
    for row, row_header in zip(rows.tolist(), headers, strict=True):
        number = int(datagram[row])
        if number not in first:
            first[number], header[number] = row, row_header
    order = sorted(first, key=lambda datagram: (datagram in incomplete, -len(clear.get(datagram, b""))))
    replaced: dict[int, np.generic] = {}
    for number in order:
        earlier = seen.setdefault(header[number], [])
        if number in incomplete:
            same = next((datagram for datagram in earlier if _agree(clear.get(datagram), clear.get(number))), None)
            if same is not None:
                replaced[number] = replaced.get(same, digest[first[same]])
        earlier.append(number)
    for row in find_rows(missing).tolist():
        number = int(datagram[row])
        if number in replaced:
            digest[row] = replaced[number]


def _agree(first: bytes | None, second: bytes | None) -> bool:
    if first is None or second is None:
        return first is second
    size = min(len(first), len(second))
    return first[:size] == second[:size]
