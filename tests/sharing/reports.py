"""Reports as documents, and what differs between two of them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render.report.document import build_report
from tests.paths import CAPTURES, LAB_CAPTURES

RECORDED = sorted([*CAPTURES.glob("*.pcap*"), *LAB_CAPTURES.glob("*.pcap*")])


def analyse(path: Path, **options: Any) -> Analysis:
    """What is in a capture, without what a manifest of the lab says about it."""
    return read_captures([str(path)], ReadOptions(lab_manifests=False, **options))


def document_of(path: Path, **options: Any) -> dict[str, Any]:
    """The JSON report of a capture."""
    return json.loads(json.dumps(build_report(analyse(path, **options)), default=str))


def list_ike_sas(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Handshakes and rekeyed IKE SAs, without their ids and the name of the capture."""
    return [
        {name: value for name, value in row.items() if name not in ("id", "capture")}
        for row in [*document["handshakes"], *document["rekeyed_ike_sas"]]
    ]


def find_differences(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The places where two documents differ, such as "breakdown/network_ms", with both values."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}):
            yield from find_differences(before.get(name), after.get(name), f"{path}/{name}".lstrip("/"))
    elif isinstance(before, (list, tuple)) and isinstance(after, (list, tuple)) and len(before) == len(after):
        for index, pair in enumerate(zip(before, after, strict=True)):
            yield from find_differences(*pair, f"{path}/{index}")
    elif before != after:
        yield path, before, after
