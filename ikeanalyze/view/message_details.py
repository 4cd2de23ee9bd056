"""Renders the details of one message: its payloads with their findings, and how it was sent."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ikeanalyze.analysis.decryption.export import build_cleartext_message
from ikeanalyze.render.core.values import escape_text, format_count, format_integer, format_ms, format_time
from ikeanalyze.view.hexdump import format_hexdump
from ikeanalyze.view.payload_details import list_ikev1_facts, list_payload_facts, list_radius_facts
from ikeanalyze.view.session import CapturedPart, MessageDetails
from ikeanalyze.view.text_lines import SPECIAL, TITLE, WRONG, TextLine, make_fact_lines, make_line
from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.eap.methods import describe_eap, parse_eap_message
from ikeanalyze.wire.header import parse_header
from ikeanalyze.wire.hip.packet import check_hip_packet, parse_hip
from ikeanalyze.wire.ikev1.describe import describe_ikev1_payload
from ikeanalyze.wire.ikev2.checks import check_payload_chain
from ikeanalyze.wire.ikev2.describe import describe_payload
from ikeanalyze.wire.payload_chain import PAYLOAD_HEADER, PayloadChain, parse_message_chain
from ikeanalyze.wire.radius import parse_radius

_NOT_FOUND: Final = make_line("  its bytes are no longer found in the capture", SPECIAL, 2)
_MAX_FRAMES: Final = 12


@dataclass(frozen=True, slots=True)
class PayloadView:
    """A decoded payload, as it is shown and compared."""

    kind: object  # compared payloads have the same kind: the type and, for notifies, the notify type
    name: str  # short description
    size: int  # bytes, with its header
    facts: list[tuple[str, str]]
    findings: tuple[str, ...] = ()  # problems


def list_message_facts(message: MessageDetails) -> list[tuple[str, str]]:
    """Return how a message was sent, as names and values."""
    row = message.row
    sender = row["sender"]
    if row["transmission"] > 1:
        sender += f", retransmission {row['transmission'] - 1}"
    facts = [
        ("time", f"{format_ms(message.after_ns)} ms, {format_time(row['first_ns'])}"),
        ("from", sender),
        ("frames", _format_frames(message)),
        ("bytes", f"{format_integer(row['bytes'])} in frames"),
    ]
    if row["fragments"] is not None:
        facts.append(("fragments", f"{row['fragments_seen']} of {row['fragments']} seen"))
    if row["ip_fragments"]:
        facts.append(("IP", format_count(row["ip_fragments"], "IP fragment")))
    if message.parts:
        facts.extend(_list_header_facts(message.parts[0]) if row["protocol"] not in ("RADIUS", "HIP") else ())
    if row["decrypted"] is not None:
        facts.append(("decrypted", _describe_decryption(message)))
    return facts


def _format_frames(message: MessageDetails) -> str:
    shown = ", ".join(map(str, message.frames[:_MAX_FRAMES]))
    more = len(message.frames) - _MAX_FRAMES
    return shown if more <= 0 else f"{shown} and {more:,} more"


def _list_header_facts(part: CapturedPart) -> Iterator[tuple[str, str]]:
    try:
        header = parse_header(part.data)
    except WireError:
        return
    yield "SPIi, SPIr", f"{header.spi_i.hex()}, {header.spi_r.hex()}"
    flags = [name.replace("_", " ") for name in ("initiator", "response", "higher_version") if getattr(header, name)]
    if header.major_version == 1:
        flags = ["encrypted"] if header.encrypted else []
    yield "version", f"{header.major_version}.{header.minor_version}"
    yield "flags", ", ".join(flags) or "none"
    yield ("length", f"{header.length:,} bytes" + ("" if part.fragment is None else " of the first fragment seen"))


def _describe_decryption(message: MessageDetails) -> str:
    row = message.row
    if not row["decrypted"]:
        return "no: no key decrypts it, or it is truncated in the capture"
    epoch = "" if row["epoch"] is None else f", epoch {row['epoch']}"
    if row["protocol"] == "IKEv1":
        return f"yes{epoch}"  # IKEv1 has no integrity check
    return f"yes{epoch}, {'ICV verified' if row['verified'] else 'no ICV to check'}"


def inspect_payloads(message: MessageDetails) -> tuple[list[PayloadView], list[str]]:
    """Return the payloads of a message, and the problems of the message as a whole."""
    content = message.content
    if message.row["protocol"] == "RADIUS":
        return _inspect_radius(message)
    if message.row["protocol"] == "HIP":
        return _inspect_hip(message)
    if content is not None:
        ikev1_exchange = content.exchange_type if message.row["protocol"] == "IKEv1" else None
        chain = PayloadChain(content.payloads, content.error)
        return _inspect_chain(chain, ikev1_exchange=ikev1_exchange, response=content.response)
    if message.row["protocol"] == "IKEv1" or not message.parts:
        return [], []  # an encrypted IKEv1 message hides even the types of its payloads
    return _inspect_chain(parse_message_chain(message.parts[0].data), ikev1_exchange=None, response=None)


def _inspect_chain(
    chain: PayloadChain, *, ikev1_exchange: int | None, response: bool | None
) -> tuple[list[PayloadView], list[str]]:
    views = []
    if ikev1_exchange is not None:
        for payload in chain.payloads:
            facts = list(list_ikev1_facts(payload, ikev1_exchange))
            views.append(
                PayloadView(
                    payload.type, describe_ikev1_payload(payload), len(payload.body) + PAYLOAD_HEADER.size, facts
                )
            )
        return views, [] if chain.error is None else [f"payloads: {chain.error}"]
    inspected = check_payload_chain(chain, response=response)
    for checked in inspected.payloads:
        payload, body = checked.payload, checked.body
        name = describe_payload(payload, body)
        kind = payload.type, getattr(body, "type", None) if name.startswith("N(") else None
        critical = [("critical", "yes")] if payload.critical else []
        facts = critical + list(list_payload_facts(body))
        views.append(PayloadView(kind, name, len(payload.body) + PAYLOAD_HEADER.size, facts, checked.findings))
    of_payloads = {finding for checked in inspected.payloads for finding in checked.findings}
    return views, [finding for finding in inspected.findings if finding not in of_payloads]


def _inspect_radius(message: MessageDetails) -> tuple[list[PayloadView], list[str]]:
    if not message.parts:
        return [], []
    packet = parse_radius(message.parts[0].data)
    views = [PayloadView("RADIUS", message.row["type"], packet.length, list(list_radius_facts(packet)))]
    if packet.eap_message is not None and (eap := parse_eap_message(packet.eap_message)) is not None:
        facts = list(list_payload_facts(eap))
        views.append(PayloadView("EAP", f"EAP({describe_eap(eap)})", len(packet.eap_message), facts))
    return views, []


def _inspect_hip(message: MessageDetails) -> tuple[list[PayloadView], list[str]]:
    packet = parse_hip(message.parts[0].data) if message.parts else None
    if packet is None:
        return [], []
    views = [
        PayloadView(
            item.type,
            item.describe(),
            item.bytes + PAYLOAD_HEADER.size,
            [("critical", "yes" if item.critical else "no")],
        )
        for item in packet.parameters
    ]
    return views, check_hip_packet(packet)


def render_message(message: MessageDetails) -> Iterator[TextLine]:
    """Render a message: its payloads, then how it was sent."""
    yield make_line(message.label, TITLE)
    payloads, findings = inspect_payloads(message)
    yield from _render_findings(findings)
    for payload in payloads:
        heading = make_line(escape_text(payload.name), TITLE, 2)
        heading.text.append(f"  {payload.size:,} bytes", "not bold dim")
        yield heading
        yield from make_fact_lines(payload.facts)
        yield from _render_findings(payload.findings)
    if not message.parts:
        yield _NOT_FOUND
    yield make_line("")
    yield make_line("How it was sent", TITLE)
    yield from make_fact_lines(list_message_facts(message))


def _render_findings(findings: Iterable[str]) -> Iterator[TextLine]:
    for finding in findings:
        yield make_line(f"  ! {escape_text(finding)}", WRONG, 4)


def render_hex_lines(message: MessageDetails, width: int) -> Iterator[TextLine]:
    """Render the bytes of a message as they were captured, and decrypted."""
    yield make_line(message.label, TITLE)
    for part in message.parts:
        fragment = "" if part.fragment is None else f", fragment {part.fragment} of {message.row['fragments']}"
        yield make_line(f"frame {part.frame}{fragment}: {format_count(len(part.data), 'byte')}", "bold dim")
        for line in format_hexdump(part.data, width):
            yield TextLine(line)
    content = message.content
    if content is not None and content.encrypted:
        data = build_cleartext_message(content)
        yield make_line("")
        yield make_line(f"decrypted: {format_count(len(data), 'byte')}", "bold dim")
        for line in format_hexdump(data, width):
            yield TextLine(line)
    if not message.parts:
        yield _NOT_FOUND


def get_message_bytes(message: MessageDetails) -> bytes:
    """Return the bytes of a message to compare: the decrypted message, or its concatenated parts."""
    content = message.content
    if content is not None and content.encrypted:
        return build_cleartext_message(content)
    return b"".join(part.data for part in message.parts)
