"""All that is known of one message, line by line: how it was sent, each payload in full, what is wrong with it."""

from collections.abc import Iterator
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
from ikeanalyze.wire.payload_chain import Payload, PayloadChain, parse_message_chain
from ikeanalyze.wire.radius import RadiusPacket, parse_radius

_HEADER: Final = 4  # bytes of a payload's generic header
_FRAMES_SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class PayloadView:
    """A payload in words: what a browser shows of it, and what two messages are compared by."""

    kind: object  # equal for payloads that are compared with one another: of one type, notifies of one notify type
    name: str  # in a few words
    size: int  # bytes, its header included
    facts: list[tuple[str, str]]
    findings: tuple[str, ...] = ()  # what is wrong with it


def list_message_facts(message: MessageDetails) -> list[tuple[str, str]]:
    """How a message was sent."""
    row = message.row
    found = [
        ("time", f"{format_ms(message.after_ns)} ms, {format_time(row['first_ns'])}"),
        ("from", row["sender"] if row["transmission"] == 1 else f"{row['sender']}, {_again(message)}"),
        ("frames", _frames(message)),
        ("bytes", f"{format_integer(row['bytes'])} in frames"),
    ]
    if row["fragments"] is not None:
        found.append(("fragments", f"{row['fragments_seen']} of {row['fragments']} seen"))
    if row["ip_fragments"]:
        found.append(("IP", format_count(row["ip_fragments"], "IP fragment")))
    if message.parts:
        found.extend(_header(message.parts[0]) if row["protocol"] not in ("RADIUS", "HIP") else ())
    if row["decrypted"] is not None:
        found.append(("decrypted", _decrypted(message)))
    return found


def _again(message: MessageDetails) -> str:
    return f"retransmission {message.row['transmission'] - 1}"


def _frames(message: MessageDetails) -> str:
    shown = ", ".join(map(str, message.frames[:_FRAMES_SHOWN]))
    more = len(message.frames) - _FRAMES_SHOWN
    return shown if more <= 0 else f"{shown} and {more:,} more"


def _header(part: CapturedPart) -> Iterator[tuple[str, str]]:
    try:
        header = parse_header(part.data)
    except WireError:
        return
    yield "SPIi, SPIr", f"{header.spi_i.hex()}, {header.spi_r.hex()}"
    flags = [
        name
        for name, there in (
            ("initiator", header.initiator),
            ("response", header.response),
            ("higher version", header.higher_version),
        )
        if there
    ]
    if header.major_version == 1:
        flags = ["encrypted"] if header.encrypted else []
    yield "version", f"{header.major_version}.{header.minor_version}"
    yield "flags", ", ".join(flags) or "none"
    yield ("length", f"{header.length:,} bytes" + ("" if part.fragment is None else " of the first fragment seen"))


def _decrypted(message: MessageDetails) -> str:
    row = message.row
    if not row["decrypted"]:
        return "no: no key fits, or it is not whole in the capture"
    epoch = "" if row["epoch"] is None else f", epoch {row['epoch']}"
    if row["protocol"] == "IKEv1":
        return f"yes{epoch}"  # which has no integrity check
    return f"yes{epoch}, {'ICV verified' if row['verified'] else 'no ICV to check'}"


def payload_views(message: MessageDetails) -> tuple[list[PayloadView], list[str]]:
    """The payloads of a message, and what is wrong with the message as a whole."""
    content = message.content
    if message.row["protocol"] == "RADIUS":
        return _told_radius(message)
    if message.row["protocol"] == "HIP":
        return _told_hip(message)
    if content is not None:
        return _told_chain(
            PayloadChain(content.payloads, content.error),
            ikev1_exchange=content.exchange_type if message.row["protocol"] == "IKEv1" else None,
            response=content.response,
        )
    if message.row["protocol"] == "IKEv1" or not message.parts:
        return [], []  # of an encrypted message of IKEv1 not even the types of its payloads are known
    return _told_chain(parse_message_chain(message.parts[0].data), ikev1_exchange=None, response=None)


def _told_chain(
    chain: PayloadChain, *, ikev1_exchange: int | None, response: bool | None
) -> tuple[list[PayloadView], list[str]]:
    if ikev1_exchange is not None:
        found = [
            PayloadView(
                payload.type,
                describe_ikev1_payload(payload),
                _size(payload),
                list(list_ikev1_facts(payload, ikev1_exchange)),
            )
            for payload in chain.payloads
        ]
        return found, [] if chain.error is None else [f"payloads: {chain.error}"]
    inspected = check_payload_chain(chain, response=response)
    found = []
    for one in inspected.payloads:
        payload, body = one.payload, one.body
        name = describe_payload(payload, body)
        kind = payload.type, getattr(body, "type", None) if name.startswith("N(") else None
        critical = [("critical", "yes")] if payload.critical else []
        found.append(PayloadView(kind, name, _size(payload), critical + list(list_payload_facts(body)), one.findings))
    theirs = {what for one in inspected.payloads for what in one.findings}
    return found, [what for what in inspected.findings if what not in theirs]


def _size(payload: Payload) -> int:
    return len(payload.body) + _HEADER


def _told_radius(message: MessageDetails) -> tuple[list[PayloadView], list[str]]:
    if not message.parts:
        return [], []
    view: RadiusPacket = parse_radius(message.parts[0].data)
    found = [PayloadView("RADIUS", message.row["type"], view.length, list(list_radius_facts(view)))]
    eap = None if view.eap_message is None else parse_eap_message(view.eap_message)
    if eap is not None and view.eap_message is not None:
        found.append(
            PayloadView("EAP", f"EAP({describe_eap(eap)})", len(view.eap_message), list(list_payload_facts(eap)))
        )
    return found, []


def _told_hip(message: MessageDetails) -> tuple[list[PayloadView], list[str]]:
    view = parse_hip(message.parts[0].data) if message.parts else None
    if view is None:
        return [], []
    found = [
        PayloadView(one.type, one.describe(), one.bytes + _HEADER, [("critical", "yes" if one.critical else "no")])
        for one in view.parameters
    ]
    return found, check_hip_packet(view)


def render_message(message: MessageDetails) -> Iterator[TextLine]:
    """A message in full: its payloads, then how it was sent."""
    yield make_line(message.label, TITLE)
    found, wrong = payload_views(message)
    for what in wrong:
        yield make_line(f"  ! {escape_text(what)}", WRONG, 4)
    for one in found:
        yield _heading(one)
        yield from make_fact_lines(one.facts)
        for what in one.findings:
            yield make_line(f"  ! {escape_text(what)}", WRONG, 4)
    if not message.parts:
        yield make_line("  its bytes could not be found in the capture again", SPECIAL, 2)
    yield make_line("")
    yield make_line("How it was sent", TITLE)
    yield from make_fact_lines(list_message_facts(message))


def _heading(one: PayloadView) -> TextLine:
    line = make_line(escape_text(one.name), TITLE, 2)
    line.text.append(f"  {one.size:,} bytes", "not bold dim")
    return line


def render_hex_lines(message: MessageDetails, width: int) -> Iterator[TextLine]:
    """The bytes of a message: as they crossed the wire, and in clear."""
    yield make_line(message.label, TITLE)
    for part in message.parts:
        which = "" if part.fragment is None else f", fragment {part.fragment} of {message.row['fragments']}"
        yield make_line(f"frame {part.frame}{which}: {format_count(len(part.data), 'byte')}", "bold dim")
        for line in format_hexdump(part.data, width):
            yield TextLine(line)
    content = message.content
    if content is not None and content.encrypted:
        data = build_cleartext_message(content)
        yield make_line("")
        yield make_line(f"decrypted, as it would stand in clear: {format_count(len(data), 'byte')}", "bold dim")
        for line in format_hexdump(data, width):
            yield TextLine(line)
    if not message.parts:
        yield make_line("  its bytes could not be found in the capture again", SPECIAL, 2)


def get_message_bytes(message: MessageDetails) -> bytes:
    """The bytes of a message for comparisons: in clear where it was decrypted, else its parts one behind the other."""
    content = message.content
    if content is not None and content.encrypted:
        return build_cleartext_message(content)
    return b"".join(part.data for part in message.parts)
