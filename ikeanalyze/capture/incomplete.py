"""Messages of which the capture lacks bytes, because an IP fragment or a TCP segment is missing from it.

A transmission that is told by its content would be another message than the one that it repeats, if some
bytes of it are missing. So it takes the digest of a transmission with the same IKE header, length included;
payloads in the clear must agree as far as they are known (an IKE_SA_INIT request with another body may have
the same header).
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

_HEADER: Final = (
    "protocol", "spi_i", "spi_r", "next_payload", "exchange_type", "flags", "message_id", "ike_bytes",
    "fragment", "fragments",
)  # fmt: skip


def share_digests(
    columns: dict[str, npt.NDArray[np.generic]], incomplete: set[int], clear: Mapping[int, bytes]
) -> None:
    """Change the digests of the frames of incomplete units, in place.

    Args:
        columns: of all kept frames.
        incomplete: units of which bytes are missing.
        clear: bytes of the units that can be read without keys, as far as they are known.
    """
    if not incomplete:
        return
    unit, digest = columns["unit"], columns["digest"]
    missing = np.isin(unit, np.fromiter(incomplete, np.uint32))
    rows = np.flatnonzero(np.isin(columns["spi_i"], columns["spi_i"][missing]))
    headers = list(zip(*(columns[name][rows].tolist() for name in _HEADER), strict=True))
    # whole ones first, then the longest: each unit is compared with those before it
    seen: dict[tuple[int, ...], list[int]] = {}
    first: dict[int, int] = {}
    header: dict[int, tuple[int, ...]] = {}
    for row, its_header in zip(rows.tolist(), headers, strict=True):
        number = int(unit[row])
        if number not in first:
            first[number], header[number] = row, its_header
    order = sorted(first, key=lambda unit: (unit in incomplete, -len(clear.get(unit, b""))))
    replaced: dict[int, np.generic] = {}
    for number in order:
        earlier = seen.setdefault(header[number], [])
        if number in incomplete:
            same = next((unit for unit in earlier if _agree(clear.get(unit), clear.get(number))), None)
            if same is not None:
                replaced[number] = replaced.get(same, digest[first[same]])
        earlier.append(number)
    for row in np.flatnonzero(missing).tolist():
        number = int(unit[row])
        if number in replaced:
            digest[row] = replaced[number]


def _agree(one: bytes | None, other: bytes | None) -> bool:
    if one is None or other is None:
        return one is other
    size = min(len(one), len(other))
    return one[:size] == other[:size]
