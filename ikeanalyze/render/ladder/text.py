"""One handshake between its hosts, message by message, in a terminal.

    time, ms  initiator                            responder  frames    bytes
                  |                                    |
       0.000      |- IKE_SA_INIT 0 request ----------->|           1      354

Time runs downwards; each message as sent, retransmissions included, is an arrow between the lifelines of the
initiator, the responder and, where RADIUS was seen, the AAA server. What is special about a message stands
below its arrow, and what is in it, as far as it is clear or could be decrypted.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, Final, TextIO

from rich.cells import cell_len, set_cell_size

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render import RenderOptions
from ikeanalyze.render.core.columns import cast_text_columns
from ikeanalyze.render.core.table import clip_text, pad_text
from ikeanalyze.render.core.terminal import TextStyler, get_headline_style
from ikeanalyze.render.core.values import (
    UNKNOWN,
    escape_text,
    format_count,
    format_endpoint,
    format_handshake_title,
    format_integer,
    format_ms,
    format_time,
)
from ikeanalyze.render.report.sections.decrypted_contents import describe_decryption, describe_radius_matching
from ikeanalyze.render.report.sections.diagnosis import format_diagnosis, format_evidence, list_diagnoses
from ikeanalyze.render.report.selection import get_handshake_row

_WIDE_ENOUGH: Final = 110  # cells: longer arrows are harder to follow

#: Characters after which the name of a payload may be broken, the best first.
_BREAKS: Final = " +,_"

#: Lines and arrow heads, for terminals that have them and for those that do not.
_LINES: Final = {
    True: {"life": "│", "dash": "─", "right": "▶", "left": "◀"},
    False: {"life": "|", "dash": "-", "right": ">", "left": "<"},
}


def write_ladder(analysis: Analysis, out: TextIO, view: RenderOptions) -> None:
    """Draw the one handshake of `analysis`, see `select.handshake`."""
    paint = TextStyler(out, view.width)
    style = get_headline_style(get_handshake_row(analysis)["outcome"])
    for line in render_heading(analysis):
        for text in wrap(line, paint.width, subsequent_indent="  ", break_on_hyphens=False):
            out.write(paint(text, style) + "\n")
        style = ""
    out.write("\n")
    for rung in render_rows(analysis, paint):
        for line in rung.lines:
            out.write(line + "\n")


def render_heading(analysis: Analysis) -> Iterator[str]:
    """What stands above the ladder of the one handshake of `analysis`, a line each."""
    row = get_handshake_row(analysis)
    yield format_handshake_title(row)
    for entry in list_diagnoses(row):
        yield f"diagnosis: {format_diagnosis(entry)}"
        yield f"evidence: {format_evidence(entry)}"
        yield f"try: {escape_text(entry['remedy'])}"
    if row["protocol"] == "HIP":
        hits = (escape_text(row[f"{side}_hit"] or UNKNOWN) for side in ("initiator", "responder"))
        yield f"HIP, HITs {', '.join(hits)}"
    else:
        yield f"{row['protocol']}, SPIi {row['spi_i']}, SPIr {row['spi_r']}"
    yield f"from {format_time(row['start_ns'])}"
    yield f"initiator: {format_endpoint(row['initiator_address'], row['initiator_port'])}"
    yield f"responder: {format_endpoint(row['responder_address'], row['responder_port'])}"
    if row["aaa_address"] is not None:
        matched = describe_radius_matching(analysis.messages)
        yield f"AAA: {escape_text(row['aaa_address'])}{matched and f', {matched}'}"
    if (opened := describe_decryption(analysis.messages)) is not None:
        yield f"decrypted: {opened}"
    if row["child_error"]:
        yield f"CHILD_SA refused: {escape_text(row['child_error'])}"
    if row["replaces"] is not None:
        yield f"replaces the IKE SA of handshake {row['replaces']}"


@dataclass(frozen=True, slots=True)
class LadderRow:
    """A message between the lifelines, or what stands above and between messages."""

    message: int | None  # id in the messages table; None: no message
    lines: tuple[str, ...]  # as `paint` made them, each as wide as it allows at most


def render_rows(analysis: Analysis, paint: TextStyler) -> Iterator[LadderRow]:
    """The ladder of the one handshake of `analysis` from top to bottom, headings first."""
    return _Ladder(paint, get_handshake_row(analysis), get_ladder_messages(analysis)).draw()


def get_ladder_messages(analysis: Analysis) -> list[dict[str, Any]]:
    """Messages in order of time, each with the reason of an extra round trip that its exchange asks for, and with the
    label of the message that has the same EAP message.
    """
    reasons = analysis.exchanges.select("exchange", "extra_round_trip")
    messages = (
        cast_text_columns(analysis.messages)
        .join(reasons, on="exchange", how="left")
        .sort("first_ns", "message")
        .to_dicts()
    )
    labels = {message["message"]: format_message_label(message) for message in messages}
    for message in messages:
        message["eap_as_in"] = labels.get(message["same_eap"])
    return messages


def get_start_ns(handshake: Mapping[str, Any], messages: Iterable[Mapping[str, Any]]) -> int:
    """Return the start of a handshake, or the time of its first message if it is unknown."""
    if handshake["start_ns"] is not None:
        return int(handshake["start_ns"])
    return min((message["first_ns"] for message in messages), default=0)


def _measure_widest(heading: str, texts: Iterable[str]) -> int:
    return max(map(cell_len, (heading, *texts)))


def format_message_label(message: Mapping[str, Any]) -> str:
    """What a message is called: `IKE_AUTH 1 request`, `Access-Request 123`, `UPDATE 7`, `I1`."""
    name = escape_text(message["type"])
    if message["protocol"] == "HIP":
        return f"{name} {message['message_id']}" if name == "UPDATE" else name
    name = f"{name} {message['message_id']}"
    return name if message["protocol"] == "RADIUS" else f"{name} {message['kind']}"


class _Ladder:
    def __init__(self, paint: TextStyler, handshake: Mapping[str, Any], messages: list[dict[str, Any]]) -> None:
        self.paint = paint
        self.signs = _LINES[paint.unicode]
        self.messages = messages
        self.start = get_start_ns(handshake, messages)
        self.time = 2 + _measure_widest("time, ms", (format_ms(m["first_ns"] - self.start) for m in messages))
        self.frames = 1 + _measure_widest("frames", (format_integer(m["frames"]) for m in messages))
        self.bytes = 2 + _measure_widest("bytes", (format_integer(m["bytes"]) for m in messages))
        room = min(paint.width, _WIDE_ENOUGH) - self.time - self.frames - self.bytes - 2
        self.spans: tuple[int, ...] = (room,)
        if handshake["aaa_address"] is not None:
            radius = (
                _measure_widest(
                    "Access-Request 0", (format_message_label(m) for m in messages if m["protocol"] == "RADIUS")
                )
                + 4
            )
            self.spans = (room - 1 - radius, radius)

    def draw(self) -> Iterator[LadderRow]:
        """The ladder, rung by rung."""
        heading = pad_text("time, ms", self.time - 2, right=True) + "  "
        if len(self.spans) == 1:
            heading += pad_text("initiator", self.spans[0] - 7) + "responder"
        else:
            heading += pad_text("initiator", self.spans[0] - 3) + pad_text("responder", self.spans[1] + 3) + "AAA"
        room = self.time + sum(self.spans) + len(self.spans) + 1
        top = self.paint(pad_text(heading, room) + self._format_counts("frames", "bytes"), "dim")
        yield LadderRow(None, (top, self._format_line(["" for _ in self.spans])))
        # 0: the capture has no message of the set-up, as of a handshake that began before it, or there was none
        after = max((index + 1 for index, message in enumerate(self.messages) if message["set_up"]), default=0)
        for index, message in enumerate(self.messages):
            if index == after:
                rule = self.signs["dash"] * 2
                yield LadderRow(None, (self.paint(f"{' ' * self.time}{rule} after the set-up {rule}", "dim"),))
            yield LadderRow(message["message"], tuple(self._draw_message(message)))

    def _format_counts(self, frames: str, size: str) -> str:
        return pad_text(frames, self.frames, right=True) + pad_text(size, self.bytes, right=True)

    def _draw_message(self, message: dict[str, Any]) -> Iterator[str]:
        hop = 1 if message["protocol"] == "RADIUS" and len(self.spans) > 1 else 0
        rightwards = message["kind"] == "request" if hop else message["sender"] == "initiator"
        spans = ["" for _ in self.spans]
        spans[hop] = self._draw_arrow(format_message_label(message), self.spans[hop], rightwards=rightwards)
        special = message["transmission"] > 1 or (message["kind"] == "response" and message["extra_round_trip"])
        style = "yellow" if special else ""
        time = pad_text(format_ms(message["first_ns"] - self.start), self.time - 2, right=True) + "  "
        yield self._format_line(
            spans, time, self._format_counts(format_integer(message["frames"]), format_integer(message["bytes"])), style
        )
        room = self.spans[hop] - 2
        notes = [line for note in get_message_notes(message) for line in wrap(note, room, break_on_hyphens=False)]
        inside = list(wrap_texts(get_message_payloads(message), room))
        # the payloads of a response stand at its arrow's tail, one line below the other
        indent = 1 if rightwards else max(self.spans[hop] - 1 - max(map(cell_len, inside), default=0), 1)
        for text in notes:
            spans = ["" for _ in self.spans]
            spans[hop] = f" {text}" if rightwards else pad_text(text, self.spans[hop] - 1, right=True)
            yield self._format_line(spans, style=style or "dim")
        for text in inside:
            spans = ["" for _ in self.spans]
            spans[hop] = " " * indent + text
            yield self._format_line(spans)

    def _draw_arrow(self, label: str, width: int, *, rightwards: bool) -> str:
        """An arrow with its label, `width` cells; a long label takes the place of the line."""
        dash = self.signs["dash"]
        label = clip_text(label, width - 2)
        tail = dash if cell_len(label) <= width - 4 else ""
        line = dash * (width - 3 - cell_len(label) - len(tail))
        if rightwards:
            return pad_text(f"{tail} {label} {line}", width - 1) + self.signs["right"]
        return self.signs["left"] + pad_text(f"{line} {label} {tail}".rstrip(), width - 1, right=not tail)

    def _format_line(self, spans: list[str], time: str = "", tail: str = "", style: str = "") -> str:
        """A line of the ladder: `spans` between the lifelines."""
        life = self.signs["life"]
        cells = [self.paint(pad_text(text, width), style) for text, width in zip(spans, self.spans, strict=True)]
        return f"{pad_text(time, self.time)}{life}{life.join(cells)}{life}{tail}".rstrip()


def get_message_notes(message: dict[str, Any]) -> Iterator[str]:
    """Return the notes on a message."""
    parts = []
    if message["transmission"] > 1:
        parts.append(f"retransmission {message['transmission'] - 1}")
    if message["fragments"] is not None:
        parts.append(f"{message['fragments_seen']}/{message['fragments']} fragments seen")
    if message["ip_fragments"]:
        parts.append(format_count(message["ip_fragments"], "IP fragment"))
    if message["decrypted"] is False:
        parts.append("encrypted")
    elif message["epoch"] is not None:
        parts.append(f"epoch {message['epoch']}")
    elif message["decrypted"]:
        parts.append("decrypted")
    if message["verified"] is False and message["protocol"] != "IKEv1":  # which never has one
        parts.append("no ICV to check")
    if parts:
        yield ", ".join(parts)
    if message["kind"] == "response" and message["extra_round_trip"] and message["transmission"] == 1:
        yield f"extra round trip: {escape_text(message['extra_round_trip'])}"
    if message["protocol"] == "RADIUS" and message["eap_as_in"] is not None:
        yield f"EAP as in {message['eap_as_in']}"


def get_message_payloads(message: Mapping[str, Any]) -> list[str]:
    """Return the payloads of a message, at its first transmission."""
    if message["payloads"] is None or message["transmission"] > 1:
        return []
    return [escape_text(payload) for payload in message["payloads"]]


def wrap_texts(texts: Iterable[str], width: int) -> Iterator[str]:
    """Texts after one another in lines of at most `width` cells; one that is longer is broken where it may be."""
    line = ""
    for text in texts:
        for piece in _cut_text(text, width):
            if line and cell_len(line) + 1 + cell_len(piece) > width:
                yield line
                line = piece
            else:
                line = f"{line} {piece}" if line else piece
    if line:
        yield line


def _cut_text(text: str, width: int) -> Iterator[str]:
    """A text in pieces of at most `width` cells."""
    while cell_len(text) > width:
        head = set_cell_size(text, width)
        places = (head.rfind(sign) + 1 for sign in _BREAKS)
        place = next((place for place in places if place > width // 3), len(head))
        yield text[:place].rstrip()
        text = text[place:].lstrip()
    yield text
