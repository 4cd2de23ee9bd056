"""Reads the manifest next to a recording of the lab: its scenario, and where and over which path it was recorded.

`NAME.manifest.json` describes `NAME.pcapng` and `NAME.initiator.pcapng`, which it names (schema `ikeanalyze.lab/1`).
The first is recorded at the responder, on its side of the emulated link, the second at the initiator.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

LAB_SCHEMA: Final = "ikeanalyze.lab/1"
CaptureHost = Literal["initiator", "responder"]
#: What follows a recording's name in the names of its captures, by the host at which they were taken.
CAPTURE_SUFFIXES: Final[Mapping[str, str]] = {"responder": "", "initiator": ".initiator"}

_MAX_BYTES: Final = 64 << 20
_MAX_MS: Final = 1e9  # of a time; larger ones do not fit into 64 bits of nanoseconds with others added


@dataclass(frozen=True, slots=True)
class LabManifest:
    """The manifest of a recording of the lab."""

    name: str  # of the scenario
    scenario: Mapping[str, Any]  # values of JSON by key, such as link.rtt_ms
    capture_host: CaptureHost = "responder"  # where the capture was taken
    #: SPIs of initiator and responder, as in the report, of the handshakes that only warm the daemons up.
    warm_ups: frozenset[tuple[str, str]] = frozenset()

    @property
    def rtt_ns(self) -> int | None:
        """Round-trip time of the link between initiator and responder, jitter not included; None: unknown."""
        both = self._read_time("link.rtt_ms", 1_000_000)
        up, down = (self._read_time(f"link.delay_{direction}_ms", 1_000_000) for direction in ("up", "down"))
        if up is not None and down is not None:
            return up + down
        if both is None:
            return None
        return (both // 2 if up is None else up) + ((both + 1) // 2 if down is None else down)

    @property
    def timer_ns(self) -> int | None:
        """The initiator's first retransmission timer; None: unknown."""
        return self._read_time("ike.retransmit_timeout_s", 1_000_000_000)

    def _read_time(self, key: str, unit_ns: int) -> int | None:
        value = self.scenario.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return round(value * unit_ns) if 0 <= value * unit_ns < _MAX_MS * 1e6 else None


def read_lab_manifest(path: str) -> LabManifest | None:
    """The manifest of the capture at `path`; None if there is none, or it is invalid or that of another capture."""
    folder, file_name = os.path.split(path)
    stem = os.path.splitext(file_name)[0]
    manifest = _read_manifest(os.path.join(folder, f"{stem}.manifest.json"), file_name)
    recording = get_recording_stem(stem)
    if manifest is None and recording != stem:
        manifest = _read_manifest(os.path.join(folder, f"{recording}.manifest.json"), file_name)
    return manifest


def get_recording_stem(stem: str) -> str:
    """The name of the recording, as in those of its keys and its manifest, of a capture with this name."""
    return stem.removesuffix(CAPTURE_SUFFIXES["initiator"])


def _read_manifest(manifest: str, file_name: str) -> LabManifest | None:
    """The manifest if it names the capture `file_name`."""
    try:
        if os.path.getsize(manifest) > _MAX_BYTES:
            return None
        import json  # few captures have a manifest

        with open(manifest, "rb") as file:
            document = json.load(file)
        files = document["files"]
        host: CaptureHost = "initiator" if files.get("captures", {}).get("initiator") == file_name else "responder"
        if document["schema"] != LAB_SCHEMA or (host == "responder" and files["capture"] != file_name):
            return None
        name, scenario = document["name"], document["scenario"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if not isinstance(scenario, dict):
        return None
    return LabManifest(str(name), scenario, host, _read_warm_ups(document.get("handshakes")))


def _read_warm_ups(handshakes: object) -> frozenset[tuple[str, str]]:
    rows = [row for row in handshakes if isinstance(row, dict)] if isinstance(handshakes, list) else []
    spis = ((row.get("spi_i"), row.get("spi_r")) for row in rows if row.get("warm_up") is True)
    return frozenset((spi_i, spi_r) for spi_i, spi_r in spis if isinstance(spi_i, str) and isinstance(spi_r, str))
