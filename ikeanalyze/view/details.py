"""All that is known of one message, line by line: how it was sent, each payload in full, what is wrong with it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ikeanalyze.analysis.cleartexts import clear_message
from ikeanalyze.render.values import clean, count, instant, ms, number
from ikeanalyze.view.hexdump import dump
from ikeanalyze.view.lines import SPECIAL, TITLE, WRONG, Line, facts, plain
from ikeanalyze.view.opening import Message, Part
from ikeanalyze.view.payloads import ikev1_facts, payload_facts, radius_facts
from ikeanalyze.wire.chain import Chain, Payload, message_chain
from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.describe import describe_payload
from ikeanalyze.wire.eap_methods import describe_eap, read_eap_message
from ikeanalyze.wire.header import parse_header
from ikeanalyze.wire.hip import inspect_hip, read_hip
from ikeanalyze.wire.ikev1_describe import describe_ikev1_payload
from ikeanalyze.wire.inspection import inspect_chain
from ikeanalyze.wire.radius import RadiusView, read_radius

_HEADER: Final = 4  # bytes of a payload's generic header
_FRAMES_SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class Told:
    """A payload in words: what a browser shows of it, and what two messages are compared by."""

    kind: object  # equal for payloads that are compared with one another: of one type, notifies of one notify type
    name: str  # in a few words
    size: int  # bytes, its header included
    facts: list[tuple[str, str]]
    findings: tuple[str, ...] = ()  # what is wrong with it


def message_facts(message: Message) -> list[tuple[str, str]]:
    """How a message was sent."""
    row = message.row
    found = [
        ("time", f"{ms(message.after_ns)} ms, {instant(row['first_ns'])}"),
        ("from", row["sender"] if row["transmission"] == 1 else f"{row['sender']}, {_again(message)}"),
        ("frames", _frames(message)),
        ("bytes", f"{number(row['bytes'])} in frames"),
    ]
    if row["fragments"] is not None:
        found.append(("fragments", f"{row['fragments_seen']} of {row['fragments']} seen"))
    if row["ip_fragments"]:
        found.append(("IP", count(row["ip_fragments"], "IP fragment")))
    if message.parts:
        found.extend(_header(message.parts[0]) if row["protocol"] not in ("RADIUS", "HIP") else ())
    if row["decrypted"] is not None:
        found.append(("decrypted", _decrypted(message)))
    return found


def _again(message: Message) -> str:
    return f"retransmission {message.row['transmission'] - 1}"


def _frames(message: Message) -> str:
    shown = ", ".join(map(str, message.frames[:_FRAMES_SHOWN]))
    more = len(message.frames) - _FRAMES_SHOWN
    return shown if more <= 0 else f"{shown} and {more:,} more"


def _header(part: Part) -> Iterator[tuple[str, str]]:
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


def _decrypted(message: Message) -> str:
    row = message.row
    if not row["decrypted"]:
        return "no: no key fits, or it is not whole in the capture"
    epoch = "" if row["epoch"] is None else f", epoch {row['epoch']}"
    if row["protocol"] == "IKEv1":
        return f"yes{epoch}"  # which has no integrity check
    return f"yes{epoch}, {'ICV verified' if row['verified'] else 'no ICV to check'}"


def told(message: Message) -> tuple[list[Told], list[str]]:
    """The payloads of a message, and what is wrong with the message as a whole."""
    content = message.content
    if message.row["protocol"] == "RADIUS":
        return _told_radius(message)
    if message.row["protocol"] == "HIP":
        return _told_hip(message)
    if content is not None:
        return _told_chain(
            Chain(content.payloads, content.error),
            ikev1_exchange=content.exchange_type if message.row["protocol"] == "IKEv1" else None,
            response=content.response,
        )
    if message.row["protocol"] == "IKEv1" or not message.parts:
        return [], []  # of an encrypted message of IKEv1 not even the types of its payloads are known
    return _told_chain(message_chain(message.parts[0].data), ikev1_exchange=None, response=None)


def _told_chain(chain: Chain, *, ikev1_exchange: int | None, response: bool | None) -> tuple[list[Told], list[str]]:
    if ikev1_exchange is not None:
        found = [
            Told(
                payload.type,
                describe_ikev1_payload(payload),
                _size(payload),
                list(ikev1_facts(payload, ikev1_exchange)),
            )
            for payload in chain.payloads
        ]
        return found, [] if chain.error is None else [f"payloads: {chain.error}"]
    inspected = inspect_chain(chain, response=response)
    found = []
    for one in inspected.payloads:
        payload, body = one.payload, one.body
        name = describe_payload(payload, body)
        kind = payload.type, getattr(body, "type", None) if name.startswith("N(") else None
        critical = [("critical", "yes")] if payload.critical else []
        found.append(Told(kind, name, _size(payload), critical + list(payload_facts(body)), one.findings))
    theirs = {what for one in inspected.payloads for what in one.findings}
    return found, [what for what in inspected.findings if what not in theirs]


def _size(payload: Payload) -> int:
    return len(payload.body) + _HEADER


def _told_radius(message: Message) -> tuple[list[Told], list[str]]:
    if not message.parts:
        return [], []
    view: RadiusView = read_radius(message.parts[0].data)
    found = [Told("RADIUS", message.row["type"], view.length, list(radius_facts(view)))]
    eap = None if view.eap_message is None else read_eap_message(view.eap_message)
    if eap is not None and view.eap_message is not None:
        found.append(Told("EAP", f"EAP({describe_eap(eap)})", len(view.eap_message), list(payload_facts(eap))))
    return found, []


def _told_hip(message: Message) -> tuple[list[Told], list[str]]:
    view = read_hip(message.parts[0].data) if message.parts else None
    if view is None:
        return [], []
    found = [
        Told(one.type, one.describe(), one.bytes + _HEADER, [("critical", "yes" if one.critical else "no")])
        for one in view.parameters
    ]
    return found, inspect_hip(view)


def detail_lines(message: Message) -> Iterator[Line]:
    """A message in full: its payloads, then how it was sent."""
    yield plain(message.label, TITLE)
    found, wrong = told(message)
    for what in wrong:
        yield plain(f"  ! {clean(what)}", WRONG, 4)
    for one in found:
        yield _heading(one)
        yield from facts(one.facts)
        for what in one.findings:
            yield plain(f"  ! {clean(what)}", WRONG, 4)
    if not message.parts:
        yield plain("  its bytes could not be found in the capture again", SPECIAL, 2)
    yield plain("")
    yield plain("How it was sent", TITLE)
    yield from facts(message_facts(message))


def _heading(one: Told) -> Line:
    line = plain(clean(one.name), TITLE, 2)
    line.text.append(f"  {one.size:,} bytes", "not bold dim")
    return line


def hex_lines(message: Message, width: int) -> Iterator[Line]:
    """The bytes of a message: as they crossed the wire, and in clear."""
    yield plain(message.label, TITLE)
    for part in message.parts:
        which = "" if part.fragment is None else f", fragment {part.fragment} of {message.row['fragments']}"
        yield plain(f"frame {part.frame}{which}: {count(len(part.data), 'byte')}", "bold dim")
        for line in dump(part.data, width):
            yield Line(line)
    content = message.content
    if content is not None and content.encrypted:
        data = clear_message(content)
        yield plain("")
        yield plain(f"decrypted, as it would stand in clear: {count(len(data), 'byte')}", "bold dim")
        for line in dump(data, width):
            yield Line(line)
    if not message.parts:
        yield plain("  its bytes could not be found in the capture again", SPECIAL, 2)


def whole_bytes(message: Message) -> bytes:
    """The bytes of a message for comparisons: in clear where it was decrypted, else its parts one behind the other."""
    content = message.content
    if content is not None and content.encrypted:
        return clear_message(content)
    return b"".join(part.data for part in message.parts)
