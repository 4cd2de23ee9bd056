"""Columns of the handshakes table with the figures of the lab's manifests."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ikeanalyze.analysis.handshakes.lab_handshakes import LabMatches
from ikeanalyze.analysis.tables import layouts
from ikeanalyze.analysis.tables.columns import share_values
from ikeanalyze.capture.arrays import Int64Array
from ikeanalyze.io.lab_manifest import HOSTS


def build_lab_columns(lab: LabMatches, capture: Int64Array) -> dict[str, Any]:
    """The columns that have a value; `capture` is the number of the capture of each handshake."""
    if not any(lab.manifests):
        return {}
    captures: dict[str, list[Any]] = {
        "measure": [manifest and manifest.measure for manifest in lab.manifests],
        "jobs": [manifest and manifest.jobs for manifest in lab.manifests],
    }
    matched = lab.handshakes.values()
    handshakes: dict[str, list[Any]] = {
        "warm_up": [handshake.warm_up for handshake in matched],
        "attempts": [handshake.attempts for handshake in matched],
        "initiator_clock_ms": [handshake.clock_ms for handshake in matched],
    }
    for host in HOSTS:
        handshakes[f"{host}_processor_ms"] = [handshake.processor_ms.get(host) for handshake in matched]
        handshakes[f"{host}_rss_bytes"] = [handshake.rss_bytes.get(host) for handshake in matched]
    place = np.full(len(capture), len(matched))  # of the null at the end
    place[list(lab.handshakes)] = np.arange(len(matched))
    return {
        **{name: _gather(name, values, capture) for name, values in captures.items() if _has_value(values)},
        **{name: _gather(name, [*values, None], place) for name, values in handshakes.items() if _has_value(values)},
    }


def _has_value(values: Sequence[Any]) -> bool:
    return any(value is not None for value in values)


def _gather(name: str, values: Sequence[Any], place: Int64Array) -> Any:
    return share_values(values, place, layouts.HANDSHAKES[name])
