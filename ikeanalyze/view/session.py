"""One handshake of a large capture, looked into when somebody wants to see it and not before.

Its frames are copied out of the capture into a small one, which is read as any other is, with the bytes of its messages
kept. So what a browser shows has one source with what reports say, and opening costs one walk over the records of the
file. The tables of the large capture stay what they are: only what is inside of messages is taken from the small one.
"""

import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import polars as pl

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage, DecodedMessages
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.analysis.result import Analysis
from ikeanalyze.analysis.schema import MESSAGES
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.analysis.tables.content_columns import list_payload_names
from ikeanalyze.capture.buffers import MessageBytes
from ikeanalyze.capture.frames import CaptureFrames, read_frames
from ikeanalyze.capture.write.filter import FilterResult, write_selected_packets
from ikeanalyze.keys.detect import KeyFile
from ikeanalyze.render.core.columns import cast_text_columns
from ikeanalyze.render.ladder.text import format_message_label
from ikeanalyze.render.report.selection import select_handshake
from ikeanalyze.wire.hip.packet import parse_hip

#: IKE SAs made by rekeying one another that are followed back to what the first one agreed on.
_MOST_BEFORE: Final = 1000
_RESPONSE: Final = 0x20  # RFC 7296, 3.1


@dataclass(frozen=True, slots=True)
class CapturedPart:
    """The bytes of a message as they crossed the wire: all of it, or one of its fragments."""

    frame: int  # number of its first frame in the capture
    fragment: int | None  # RFC 7383 fragment number; None: not fragmented
    data: bytes = field(repr=False)  # from its header on, as far as it was captured


@dataclass(frozen=True, slots=True)
class MessageDetails:
    """One message, one time that it was sent."""

    row: Mapping[str, Any]  # of the messages table, enums as text
    after_ns: int  # since the handshake began
    frames: tuple[int, ...]  # numbers in the capture
    parts: tuple[CapturedPart, ...]  # in the order of their frames
    content: DecodedMessage | None = field(repr=False)  # what is in it; None: encrypted, RADIUS, or HIP

    @property
    def label(self) -> str:
        """IKE_AUTH 1 request; of RADIUS Access-Request 12; of HIP I1."""
        return format_message_label(self.row)


@dataclass(frozen=True, slots=True)
class HandshakeDetails:
    """One handshake, looked into."""

    handshake: int
    analysis: Analysis  # of this handshake alone, with the payloads of its messages
    messages: Mapping[int, MessageDetails]  # by id, in order of time


class CaptureSession:
    """A capture that was read, and what is needed to look into its handshakes."""

    def __init__(self, path: str, analysis: Analysis, keys: Sequence[KeyFile] = (), ports: Sequence[int] = ()) -> None:
        self.path: Final = path
        self.analysis: Final = analysis
        self._keys = keys
        self._ports = tuple(ports)

    def frames(self, handshakes: Collection[int]) -> list[int]:
        """Numbers of the frames of some handshakes, duplicates that the capture made included."""
        chosen = self.analysis.frames["handshake"].is_in(list(handshakes))
        return self.analysis.frames["number"].filter(chosen).unique().to_list()

    def load_handshake(self, handshake: int) -> HandshakeDetails:
        """Look into one handshake.

        Raises:
            CaptureError: the capture cannot be read any more.
            OSError: there is no room for a temporary file.
        """
        one = select_handshake(self.analysis, handshake)
        chain = self._with_those_before(handshake)
        numbers = sorted(self.frames(chain))
        looked = self._look(chain, numbers)
        messages = {message.row["message"]: message for message in _messages(one, numbers, looked)}
        return HandshakeDetails(handshake, _with_payloads(one, messages.values()), messages)

    def save(self, path: str, handshakes: Collection[int], frames: Collection[int]) -> FilterResult:
        """Write the frames of some handshakes, and others by their numbers, as a capture; raises as `write_selected_packets`."""
        numbers = {*frames, *(self.frames(handshakes) if handshakes else ())}
        return write_selected_packets(self.path, path, numbers)

    def _with_those_before(self, handshake: int) -> list[int]:
        """The handshake and those whose IKE SAs it replaces: they agreed on what its keys are for."""
        replaced = self.analysis.handshakes.select("handshake", "replaces").drop_nulls()
        before = dict(replaced.iter_rows())
        chain = [handshake]
        while (last := before.get(chain[-1])) is not None and len(chain) < _MOST_BEFORE:
            chain.append(last)
        return chain

    def _look(self, chain: list[int], numbers: list[int]) -> "_MessageBytesCollector":
        """Read the frames of these numbers again, as a capture of their own."""
        suffix = f".{self.analysis.captures[0].format}"
        looked = _MessageBytesCollector()
        with tempfile.TemporaryDirectory(prefix="ikeanalyze-") as room:
            path = os.path.join(room, f"handshake{suffix}")
            write_selected_packets(self.path, path, numbers)
            looked.take_bytes(read_frames(path, self._ports, spis=None))
            read_captures(
                path,
                ReadOptions(ports=self._ports, keys=self._keys_of(chain), payloads=True, looked=looked.take_contents),
            )
        return looked

    def _keys_of(self, chain: list[int]) -> list[KeyFile]:
        """Of a log with the keys of thousands of IKE SAs those that can fit."""
        chosen = self.analysis.handshakes.filter(pl.col("handshake").is_in(chain))["spi_i"].to_list()
        spis = {None, *(bytes.fromhex(spi) for spi in chosen if spi is not None)}
        return [
            replace(
                file,
                key_sets=[one for one in file.key_sets if one.spi_i in spis],
                phase1=[one for one in file.phase1 if one.cookie_i in spis],
            )
            for file in self._keys
        ]


class _MessageBytesCollector:
    """What the small capture tells, by its units: messages or fragments as they crossed the wire."""

    def __init__(self) -> None:
        #: Of each frame, in order, and of each message in it: number in the small capture, unit, message ID, whether it
        #: is a response, fragment number.
        self.rows: list[tuple[int, int, int, bool, int]] = []
        self.bytes: dict[int, bytes] = {}
        self.contents: dict[int, DecodedMessage] = {}

    def take_bytes(self, capture: CaptureFrames) -> None:
        names = ("number", "unit", "message_id", "flags", "fragment")
        columns = (capture.columns[name].tolist() for name in names)
        self.rows = [
            (number, unit, message_id, bool(flags & _RESPONSE), fragment)
            for number, unit, message_id, flags, fragment in zip(*columns, strict=True)
        ]
        for _, unit, *_ in self.rows:
            data = capture.clear.get(unit)
            self.bytes[unit] = capture.sealed.get(unit, b"") if data is None else data

    def take_contents(self, conversation: AnalysisState, _: MessageBytes, contents: DecodedMessages) -> None:
        of_unit = contents.of_message[conversation.message_of_datagram]
        for unit, index in zip(conversation.datagrams.datagram.tolist(), of_unit.tolist(), strict=True):
            if index >= 0:
                self.contents[unit] = contents.all[index]


def _messages(one: Analysis, numbers: list[int], looked: _MessageBytesCollector) -> Iterator[MessageDetails]:
    """The messages of a handshake, in order of time. `numbers`: of the frames of the small capture."""
    units = {(numbers[number - 1], *which): unit for number, unit, *which in looked.rows}
    frames: dict[int, list[tuple[int, int | None, int | None]]] = {}
    columns = ("message", "number", "message_id", "flags", "fragment")
    for message, number, message_id, flags, fragment in one.frames.select(columns).iter_rows():
        found = units.get((number, message_id or 0, bool((flags or 0) & _RESPONSE), fragment or 0))
        frames.setdefault(message, []).append((number, fragment, found))
    begin = one.handshakes["start_ns"][0]
    table = one.messages.with_columns(*cast_text_columns(one.messages)).sort("first_ns", "message")
    for row in table.iter_rows(named=True):
        its = sorted(frames.get(row["message"], ()), key=lambda frame: frame[0])
        begin = row["first_ns"] if begin is None else begin
        parts: dict[int, CapturedPart] = {}
        for number, fragment, unit in its:
            if unit is not None and unit not in parts and looked.bytes.get(unit):
                parts[unit] = CapturedPart(number, fragment, looked.bytes[unit])
        yield MessageDetails(
            row=row,
            after_ns=row["first_ns"] - begin,
            frames=tuple(dict.fromkeys(number for number, _, _ in its)),
            parts=tuple(parts.values()),
            content=next((looked.contents[unit] for unit in parts if unit in looked.contents), None),
        )


def _names(message: MessageDetails) -> list[str] | None:
    if message.content is not None:
        return list_payload_names(message.content)
    if message.row["protocol"] == "HIP" and message.parts:
        view = parse_hip(message.parts[0].data)
        return None if view is None else view.describe()
    named: list[str] | None = message.row["payloads"]
    return named


def _with_payloads(one: Analysis, messages: Iterable[MessageDetails]) -> Analysis:
    """The analysis, its messages with the names of their payloads."""
    named = {message.row["message"]: _names(message) for message in messages}
    payloads = pl.Series(
        "payloads", [named.get(number) for number in one.messages["message"]], dtype=MESSAGES["payloads"]
    )
    return replace(one, messages=one.messages.with_columns(payloads))
