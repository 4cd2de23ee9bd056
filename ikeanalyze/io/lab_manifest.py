"""Reads the manifest next to a recording of the lab: its scenario, its handshakes, and the path it was recorded over.

`NAME.manifest.json` describes `NAME.pcapng` and `NAME.initiator.pcapng`, which it names (schema `ikeanalyze.lab/1`).
The first is recorded at the responder, on its side of the emulated link, the second at the initiator.
"""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from msgspec import Struct

from ikeanalyze.io.decompress import strip_compression

LAB_SCHEMA: Final = "ikeanalyze.lab/1"
#: What the lab runs a case for: keys and logs for the analysis, or the costs of the protocol alone.
COSTS: Final = "costs"
MEASURES: Final = ("keys", COSTS)
#: Hosts whose daemons have costs.
HOSTS: Final = ("initiator", "responder", "aaa")
CaptureHost = Literal["initiator", "responder"]
#: What follows a recording's name in the names of its captures, by the host at which they were taken.
CAPTURE_SUFFIXES: Final[Mapping[str, str]] = {"responder": "", "initiator": ".initiator"}

_MAX_BYTES: Final = 64 << 20
_MAX_MS: Final = 1e9  # of a time; larger ones do not fit into 64 bits of nanoseconds with others added
_BYTE_NS: Final = 8e6  # to transmit a byte at 1 kbit/s
_MIN_KBPS: Final = 1e-3  # of a rate; smaller ones give times beyond 64 bits of nanoseconds
_MAX_KBPS: Final = 1e9
_DEFAULT_MTU: Final = 1500
_MAX_MTU: Final = 65_535
_MAX_INTEGER: Final = 2**63 - 1  # of a column
_SPI: Final = re.compile(r"[0-9a-fA-F]{16}")


class LabHandshake(Struct, frozen=True):
    """A handshake of a recording, as the lab measured it; None: the manifest does not have the value."""

    number: int  # from 1, in the order of the manifest
    spi_i: int
    spi_r: int | None
    warm_up: bool  # made before those that count
    attempts: int | None  # of the initiator, until the IKE SA was established
    clock_ms: float | None  # set-up time by the clock of the initiator's host
    processor_ms: Mapping[str, float]  # processor time that the daemon of each host took
    rss_bytes: Mapping[str, int]  # resident set size of these daemons afterwards


class LabManifest(Struct, frozen=True):
    """The manifest of a recording of the lab."""

    name: str  # of the scenario
    scenario: Mapping[str, Any]  # values of JSON by key, such as link.rtt_ms
    capture_host: CaptureHost = "responder"  # where the capture was taken
    measure: str | None = None  # one of MEASURES; None: unknown
    jobs: int | None = None  # cases that ran at the same time; None: unknown
    handshakes: tuple[LabHandshake, ...] = ()  # without those that have no SPIs, because there was no IKE SA

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

    @property
    def byte_ns(self) -> tuple[float, float]:
        """Time that the link takes to transmit a byte from the initiator, and to it; 0: no limit, or unknown."""
        up, down = (
            self._read_rate(f"link.rate_{direction}_kbps", self._read_rate("link.rate_kbps", 0.0))
            for direction in ("up", "down")
        )
        return (_BYTE_NS / up if up else 0.0), (_BYTE_NS / down if down else 0.0)

    @property
    def mtu(self) -> int:
        """Bytes of the largest IP packet on the link."""
        mtu = _to_integer(self.scenario.get("link.mtu"))
        return mtu if mtu and mtu <= _MAX_MTU else _DEFAULT_MTU

    def _read_rate(self, key: str, default: float) -> float:
        value = self.scenario.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return default
        return value if _MIN_KBPS <= value < _MAX_KBPS else 0.0

    def _read_time(self, key: str, unit_ns: int) -> int | None:
        value = self.scenario.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return round(value * unit_ns) if 0 <= value * unit_ns < _MAX_MS * 1e6 else None


def read_lab_manifest(path: str) -> LabManifest | None:
    """The manifest of the capture at `path`; None if there is none, or it is invalid or that of another capture.

    The capture may have been compressed after it was recorded.
    """
    for manifest in _find_manifests(path):
        found = _read_manifest(manifest, _get_recorded_name(path))
        if found is not None:
            return found
    return None


def describe_unused_manifest(path: str) -> str | None:
    """Why the lab's manifest next to the capture at `path` is not that of the capture, for a capture without one.

    None: there is no such file, or it is of another program.
    """
    for manifest in _find_manifests(path):
        try:
            document = _load_document(manifest)
        except OSError:
            continue
        name = os.path.basename(manifest)
        if document is None:
            return f"{name} is not used: it is not valid JSON"
        if _get(document, "schema") != LAB_SCHEMA:
            continue
        recorded = _get(document, "files", "capture")
        if isinstance(recorded, str) and recorded != _get_recorded_name(path):
            return f"{name} is not used: it is of a capture with the name {recorded}"
        return f"{name} is not used: it is incomplete"
    return None


def _find_manifests(path: str) -> Iterator[str]:
    """The paths of files that may be the manifest of the capture at `path`."""
    folder, file_name = os.path.split(strip_compression(path))
    stem = os.path.splitext(file_name)[0]
    for name in dict.fromkeys((stem, get_recording_stem(stem))):
        yield os.path.join(folder, f"{name}.manifest.json")


def _get_recorded_name(path: str) -> str:
    return os.path.basename(strip_compression(path))


def _load_document(manifest: str) -> Any:
    """The JSON of a manifest; None: invalid, or too long for one.

    Raises:
        OSError: there is no such file, or it cannot be read.
    """
    if os.path.getsize(manifest) > _MAX_BYTES:
        return None
    import json  # few captures have a manifest

    with open(manifest, "rb") as file:
        try:
            return json.load(file)
        except (ValueError, RecursionError):
            return None


def get_recording_stem(stem: str) -> str:
    """The name of the recording, as in those of its keys and its manifest, of a capture with this name."""
    return stem.removesuffix(CAPTURE_SUFFIXES["initiator"])


def _read_manifest(manifest: str, file_name: str) -> LabManifest | None:
    """The manifest if it names the capture `file_name`."""
    try:
        document = _load_document(manifest)
        files = document["files"]
        host: CaptureHost = "initiator" if files.get("captures", {}).get("initiator") == file_name else "responder"
        if document["schema"] != LAB_SCHEMA or (host == "responder" and files["capture"] != file_name):
            return None
        name, scenario = document["name"], document["scenario"]
    except (OSError, KeyError, TypeError, AttributeError):
        return None
    if not isinstance(scenario, dict):
        return None
    # manifests without this key are of recordings with keys
    measure = scenario.get("measure", document.get("measure", MEASURES[0]))
    return LabManifest(
        name=str(name),
        scenario=scenario,
        capture_host=host,
        measure=measure if measure in MEASURES else None,
        jobs=_to_integer(_get(document, "machine", "jobs") or document.get("jobs")),
        handshakes=tuple(_read_handshakes(document.get("handshakes"))),
    )


def _read_handshakes(handshakes: Any) -> Iterator[LabHandshake]:
    for number, handshake in enumerate(handshakes if isinstance(handshakes, list) else (), 1):
        spi_i = _to_spi(_get(handshake, "spi_i"))
        if spi_i is None:
            continue
        processor_ms = {host: _to_number(_get(handshake, "costs", host, "processor_ms")) for host in HOSTS}
        rss_bytes = {host: _to_integer(_get(handshake, "costs", host, "rss_after_bytes")) for host in HOSTS}
        yield LabHandshake(
            number=number,
            spi_i=spi_i,
            spi_r=_to_spi(_get(handshake, "spi_r")),
            warm_up=_get(handshake, "warm_up") is True,
            attempts=_to_integer(_get(handshake, "attempts")),
            clock_ms=_to_number(_get(handshake, "ms")),
            processor_ms={host: value for host, value in processor_ms.items() if value is not None},
            rss_bytes={host: value for host, value in rss_bytes.items() if value is not None},
        )


def _get(value: Any, *keys: str) -> Any:
    """The value of JSON at the end of these keys; None: there is no such value."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _to_spi(value: Any) -> int | None:
    """An SPI; None: invalid, or zero."""
    return int(value, 16) or None if isinstance(value, str) and _SPI.fullmatch(value) else None


def _to_number(value: Any) -> float | None:
    """A time in milliseconds; None: invalid."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < _MAX_MS else None


def _to_integer(value: Any) -> int | None:
    """A count; None: invalid."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= _MAX_INTEGER else None
