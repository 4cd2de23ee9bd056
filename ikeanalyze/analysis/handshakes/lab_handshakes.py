"""Find the handshakes of the lab's manifests in their captures, by their SPIs."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
from msgspec import Struct

from ikeanalyze.analysis.messages.capture_facts import WHOLE_CAPTURE, CaptureFacts, Rows, SharedFact
from ikeanalyze.capture.arrays import Int64Array, UInt64Array
from ikeanalyze.io.lab_manifest import LabHandshake, LabManifest

#: Handshakes that a warning names.
_NAMED: Final = 5


class LabMatches(Struct, frozen=True):
    """The lab's figures of captures and handshakes."""

    manifests: Sequence[LabManifest | None]  # of the captures
    handshakes: Mapping[int, LabHandshake]  # by row of the handshakes; other rows have none
    missing: Sequence[tuple[int, str]]  # number of a capture, and the text of a warning


def match_lab_handshakes(
    manifests: Sequence[LabManifest | None],
    capture: Int64Array,
    spi_i: UInt64Array,
    spi_r: UInt64Array,
    facts: CaptureFacts = WHOLE_CAPTURE,
) -> LabMatches:
    """Match the handshakes of captures with those of the manifests: each with one other at most.

    A responder SPI that is unknown on either side fits any, because an initiator SPI is random (RFC 7296, section 2.6).

    Args:
        manifests: of each capture, or None. (captures,)
        capture: number of the capture of each handshake. (handshakes,)
        spi_i: initiator SPIs. (handshakes,)
        spi_r: responder SPIs; 0: unknown. (handshakes,)
        facts: the facts of the whole capture.
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
        present: list[int] = []  # places in `measured`
        for place, (spis, handshake) in enumerate(measured.items()):
            match = rows.get(spis, rows.get((handshake.spi_i, 0)))
            if match is not None and match not in matches:
                matches[match] = handshake
                present.append(place)
        shared = facts.share(SharedFact.LAB_HANDSHAKES, partial(_make_rows, present))
        everywhere = set(present if shared is None else shared["place"].tolist())
        absent = [handshake.number for place, handshake in enumerate(measured.values()) if place not in everywhere]
        if absent:
            missing.append((number, _describe_missing(absent, len(manifest.handshakes))))
    return LabMatches(manifests, matches, missing)


def _make_rows(places: Sequence[int]) -> Rows:
    return {"place": np.array(places, np.int64)}


def _describe_missing(numbers: Sequence[int], count: int) -> str:
    named = ", ".join(map(str, numbers[:_NAMED])) + (", ..." if len(numbers) > _NAMED else "")
    verb, noun = ("is", "number") if len(numbers) == 1 else ("are", "numbers")
    return f"{len(numbers):,} of {count:,} handshakes of the lab's manifest {verb} not in the capture ({noun} {named})"
