"""The JSON document of ESP overhead, schema "ikeanalyze.overhead/1", and the rows of its CSV."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from ikeanalyze.model.esp.overhead import EspProcessor, OverheadResult, PacketCost
from ikeanalyze.render.core.json import select_attributes
from ikeanalyze.render.overhead import esp_traffic
from ikeanalyze.render.overhead.text import OverheadReport

SCHEMA: Final = "ikeanalyze.overhead/1"


def build_document(report: OverheadReport) -> dict[str, Any]:
    """Return the document."""
    measured = report.measured
    return {
        "schema": SCHEMA,
        "computed": None if report.computed is None else _build_computed(report.computed),
        "measured": None if measured is None else esp_traffic.build_document(measured, report.suite),
    }


def build_rows(report: OverheadReport) -> Iterator[dict[str, Any]]:
    """Yield a row for each computed packet or measured SA."""
    if report.measured is not None:
        yield from esp_traffic.build_rows(report.measured, report.suite)
    if report.computed is not None:
        mips = report.computed.question.mips
        for packet in report.computed.packets:
            yield {
                **{name: value for name, value in _build_packet(packet).items() if name not in ("parts", "us")},
                **{f"us_{speed:g}_mips": us for speed, us in zip(mips, packet.us, strict=True)},
            }


def _build_computed(result: OverheadResult) -> dict[str, Any]:
    question = result.question
    form = question.forms[0]
    traffic = question.traffic
    return {
        "formulas": "paper" if question.paper else "RFC 4303",
        "mode": str(form.mode),
        "encapsulation": str(form.carrier),
        "inner_ip": form.inner,
        "outer_ip": form.outer,
        "packets": [_build_packet(packet) for packet in result.packets],
        "mtu": question.mtu,
        "largest": dict(result.largest),
        "traffic": None if traffic is None else {"mean_bytes": traffic.mean, "sizes": len(traffic.size)},
        "channel_bps": question.channel,
        "grown": dict(result.grown),
        "processors": [_build_peer(peer) for peer in result.peers],
    }


def _build_packet(packet: PacketCost) -> dict[str, Any]:
    parts = packet.parts
    return {
        "suite": packet.suite,
        "clear_bytes": packet.clear,
        "esp_packet_bytes": packet.size,
        "added_bytes": packet.size - packet.clear,
        "ratio": packet.ratio,
        "operations": packet.operations,
        "us": list(packet.us),
        "parts": None if parts is None else asdict(parts),
    }


def _build_peer(peer: EspProcessor) -> dict[str, Any]:
    return {
        **select_attributes(peer, "suite", "mips", "mean_operations", "mean_us", "ceiling_bps", "throughput_bps"),
        "delays": [asdict(delay) for delay in peer.waiting],
    }
