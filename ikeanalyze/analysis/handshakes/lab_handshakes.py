"""Find the handshakes of the lab's manifests in their captures, by their SPIs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ikeanalyze.capture.arrays import Int64Array, UInt64Array
from ikeanalyze.io.lab_manifest import LabHandshake, LabManifest

#: Handshakes that a warning names.
_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class LabMatches:
    """The lab's figures of captures and handshakes."""

    manifests: Sequence[LabManifest | None]  # of the captures
    handshakes: Mapping[int, LabHandshake]  # by row of the handshakes; other rows have none
    missing: Sequence[tuple[int, str]]  # number of a capture, and the text of a warning


def match_lab_handshakes(
    manifests: Sequence[LabManifest | None], capture: Int64Array, spi_i: UInt64Array, spi_r: UInt64Array
) -> LabMatches:
    """Match the handshakes of captures with those of the manifests: each with one other at most.

    A responder SPI that is unknown on either side fits any, because an initiator SPI is random (RFC 7296, section 2.6).

    Args:
        manifests: of each capture, or None. (captures,)
        capture: number of the capture of each handshake. (handshakes,)
        spi_i: initiator SPIs. (handshakes,)
        spi_r: responder SPIs; 0: unknown. (handshakes,)
    """
    matches: dict[int, LabHandshake] = {}
    missing: list[tuple[int, str]] = []
    for number, manifest in enumerate(manifests):
        if manifest is None or not manifest.handshakes:
            continue
        measured: dict[tuple[int, int | None], LabHandshake] = {}
        for handshake in manifest.handshakes:
            measured.setdefault((handshake.spi_i, handshake.spi_r), handshake)
        known = np.array([handshake.spi_i for handshake in measured.values()], np.uint64)
        rows: dict[tuple[int, int | None], int] = {}  # the first ones with these SPIs; None: any responder SPI
        for row in np.flatnonzero((capture == number) & np.isin(spi_i, known)).tolist():
            for responder in (int(spi_r[row]), None):
                rows.setdefault((int(spi_i[row]), responder), row)
        absent = []
        for spis, handshake in measured.items():
            match = rows.get(spis, rows.get((handshake.spi_i, 0)))
            if match is None or match in matches:
                absent.append(handshake.number)
            else:
                matches[match] = handshake
        if absent:
            missing.append((number, _describe_missing(absent, len(manifest.handshakes))))
    return LabMatches(manifests, matches, missing)


def _describe_missing(numbers: Sequence[int], count: int) -> str:
    named = ", ".join(map(str, numbers[:_NAMED])) + (", ..." if len(numbers) > _NAMED else "")
    verb, noun = ("is", "number") if len(numbers) == 1 else ("are", "numbers")
    return f"{len(numbers):,} of {count:,} handshakes of the lab's manifest {verb} not in the capture ({noun} {named})"
