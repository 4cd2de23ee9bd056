"""The cost of ESP for programs: the JSON document of schema "ikeanalyze.overhead/1", and the rows of its CSV."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from ikeanalyze.model.esp.overhead import EspProcessor, OverheadResult, PacketCost, QueueDelay
from ikeanalyze.model.esp.queue import MeanDelay
from ikeanalyze.render.overhead import esp_traffic
from ikeanalyze.render.overhead.text import OverheadReport

SCHEMA: Final = "ikeanalyze.overhead/1"


def build_document(answer: OverheadReport) -> dict[str, Any]:
    """The document of schema "ikeanalyze.overhead/1"."""
    measured = answer.measured
    return {
        "schema": SCHEMA,
        "computed": None if answer.computed is None else _document(answer.computed),
        "measured": None if measured is None else esp_traffic.build_document(measured, answer.suite),
    }


def build_rows(answer: OverheadReport) -> Iterator[dict[str, Any]]:
    """A row for each packet that was computed, or for each SA that was measured."""
    if answer.measured is not None:
        yield from esp_traffic.build_rows(answer.measured, answer.suite)
    if answer.computed is not None:
        mips = answer.computed.question.mips
        for packet in answer.computed.packets:
            yield {
                **{name: value for name, value in _packet(packet).items() if name not in ("parts", "us")},
                **{f"us_{speed:g}_mips": us for speed, us in zip(mips, packet.us, strict=True)},
            }


def _document(found: OverheadResult) -> dict[str, Any]:
    question = found.question
    form = question.forms[0]
    traffic = question.traffic
    return {
        "formulas": "paper" if question.paper else "RFC 4303",
        "mode": str(form.mode),
        "encapsulation": str(form.carrier),
        "inner_ip": form.inner,
        "outer_ip": form.outer,
        "packets": [_packet(packet) for packet in found.packets],
        "mtu": question.mtu,
        "largest": dict(found.largest),
        "traffic": None if traffic is None else {"mean_bytes": traffic.mean, "sizes": len(traffic.size)},
        "channel_bps": question.channel,
        "grown": dict(found.grown),
        "processors": [_peer(peer) for peer in found.peers],
    }


def _packet(packet: PacketCost) -> dict[str, Any]:
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


def _peer(peer: EspProcessor) -> dict[str, Any]:
    return {
        "suite": peer.suite,
        "mips": peer.mips,
        "mean_operations": peer.mean_operations,
        "mean_us": peer.mean_us,
        "ceiling_bps": peer.ceiling_bps,
        "throughput_bps": peer.throughput_bps,
        "delays": [_waiting(one) for one in peer.waiting],
    }


def _waiting(one: QueueDelay) -> dict[str, Any]:
    def of(delay: MeanDelay | None) -> dict[str, Any] | None:
        return None if delay is None else asdict(delay)

    return {
        "rate_bps": one.rate_bps,
        "processor": of(one.processor),
        "channel": of(one.channel),
        "total_ms": one.total_ms,
    }
