"""Loads the messages of a handshake of a large capture when the user opens it.

The frames of the handshake are copied to a small capture, which is analysed with the bytes of its messages. So the
browser and the reports use the same analysis, and opening a handshake takes one pass over the records of the file. The
tables of the large capture do not change: only the contents of messages come from the small one.
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
from ikeanalyze.wire.header import FLAG_RESPONSE
from ikeanalyze.wire.hip.packet import parse_hip

#: Rekeyed IKE SAs that are followed back to the first one, which negotiated the algorithms.
_MAX_REKEYS: Final = 1000


@dataclass(frozen=True, slots=True)
class CapturedPart:
    """The captured bytes of a message, or of one of its fragments."""

    frame: int  # number of its first frame in the capture
    fragment: int | None  # RFC 7383 fragment number; None: not fragmented
    data: bytes = field(repr=False)  # from the IKE header on, as far as captured


@dataclass(frozen=True, slots=True)
class MessageDetails:
    """One transmission of a message."""

    row: Mapping[str, Any]  # of the messages table, enums as text
    after_ns: int  # since the start of the handshake
    frames: tuple[int, ...]  # numbers in the capture
    parts: tuple[CapturedPart, ...]  # in the order of their frames
    content: DecodedMessage | None = field(repr=False)  # None: encrypted, RADIUS, or HIP

    @property
    def label(self) -> str:
        """Such as IKE_AUTH 1 request, Access-Request 12 or I1."""
        return format_message_label(self.row)


@dataclass(frozen=True, slots=True)
class HandshakeDetails:
    """One handshake with its messages."""

    handshake: int
    analysis: Analysis  # of this handshake only, with the payloads of its messages
    messages: Mapping[int, MessageDetails]  # by id, in order of time


class CaptureSession:
    """A capture that was read, its keys, and access to the messages of its handshakes."""

    def __init__(self, path: str, analysis: Analysis, keys: Sequence[KeyFile] = (), ports: Sequence[int] = ()) -> None:
        self.path: Final = path
        self.analysis = analysis
        self._keys = keys
        self._ports = tuple(ports)

    def frames(self, handshakes: Collection[int]) -> list[int]:
        """Return the frame numbers of some handshakes, with duplicates made by the capture."""
        chosen = self.analysis.frames["handshake"].is_in(list(handshakes))
        return self.analysis.frames["number"].filter(chosen).unique().to_list()

    def load_handshake(self, handshake: int) -> HandshakeDetails:
        """Load the messages of one handshake.

        Raises:
            CaptureError: the capture cannot be read any more.
            OSError: a temporary file cannot be written.
        """
        selected = select_handshake(self.analysis, handshake)
        chain = self._find_rekey_chain(handshake)
        numbers = sorted(self.frames(chain))
        collected = self._collect_bytes(chain, numbers)
        messages = {message.row["message"]: message for message in _make_messages(selected, numbers, collected)}
        return HandshakeDetails(handshake, _add_payload_names(selected, messages.values()), messages)

    def save(self, path: str, handshakes: Collection[int], frames: Collection[int]) -> FilterResult:
        """Write the frames of some handshakes and further frames to a capture; errors: see `write_selected_packets`."""
        numbers = {*frames, *(self.frames(handshakes) if handshakes else ())}
        return write_selected_packets(self.path, path, numbers)

    def _find_rekey_chain(self, handshake: int) -> list[int]:
        """Return the handshake and those that its IKE SA replaces, which are needed to decrypt it."""
        replaced = self.analysis.handshakes.select("handshake", "replaces").drop_nulls()
        before = dict(replaced.iter_rows())
        chain = [handshake]
        while (last := before.get(chain[-1])) is not None and len(chain) < _MAX_REKEYS:
            chain.append(last)
        return chain

    def _collect_bytes(self, chain: list[int], numbers: list[int]) -> "_MessageBytesCollector":
        """Copy frames to a capture of their own, and read it."""
        collector = _MessageBytesCollector()
        with tempfile.TemporaryDirectory(prefix="ikeanalyze-") as directory:
            path = os.path.join(directory, f"handshake.{self.analysis.captures[0].format}")
            write_selected_packets(self.path, path, numbers)
            collector.take_bytes(read_frames(path, self._ports, spis=None))
            options = ReadOptions(
                ports=self._ports, keys=self._select_keys(chain), payloads=True, on_contents=collector.take_contents
            )
            read_captures(path, options)
        return collector

    def _select_keys(self, chain: list[int]) -> list[KeyFile]:
        """Return the keys of these handshakes, since a log may have the keys of thousands of IKE SAs."""
        chosen = self.analysis.handshakes.filter(pl.col("handshake").is_in(chain))["spi_i"].to_list()
        spis = {None, *(bytes.fromhex(spi) for spi in chosen if spi is not None)}
        return [
            replace(
                file,
                key_sets=[key_set for key_set in file.key_sets if key_set.spi_i in spis],
                phase1=[key for key in file.phase1 if key.cookie_i in spis],
            )
            for file in self._keys
        ]


class _MessageBytesCollector:
    """The bytes and contents of the small capture, by datagram."""

    def __init__(self) -> None:
        #: For each message in each frame: frame number in the small capture, datagram, message ID, whether it is a
        #: response, fragment number.
        self.rows: list[tuple[int, int, int, bool, int]] = []
        self.bytes: dict[int, bytes] = {}
        self.contents: dict[int, DecodedMessage] = {}

    def take_bytes(self, capture: CaptureFrames) -> None:
        names = ("number", "datagram", "message_id", "flags", "fragment")
        columns = (capture.columns[name].tolist() for name in names)
        self.rows = [
            (number, datagram, message_id, bool(flags & FLAG_RESPONSE), fragment)
            for number, datagram, message_id, flags, fragment in zip(*columns, strict=True)
        ]
        for _, datagram, *_ in self.rows:
            data = capture.clear.get(datagram)
            self.bytes[datagram] = capture.encrypted.get(datagram, b"") if data is None else data

    def take_contents(self, state: AnalysisState, _: MessageBytes, contents: DecodedMessages) -> None:
        indexes = contents.of_message[state.message_of_datagram]
        for datagram, index in zip(state.datagrams.datagram.tolist(), indexes.tolist(), strict=True):
            if index >= 0:
                self.contents[datagram] = contents.all[index]


def _make_messages(
    analysis: Analysis, numbers: list[int], collected: _MessageBytesCollector
) -> Iterator[MessageDetails]:
    """Yield the messages of a handshake in order of time; `numbers`: original numbers of the small capture's frames."""
    datagrams = {(numbers[number - 1], *key): datagram for number, datagram, *key in collected.rows}
    frames: dict[int, list[tuple[int, int | None, int | None]]] = {}
    columns = ("message", "number", "message_id", "flags", "fragment")
    for message, number, message_id, flags, fragment in analysis.frames.select(columns).iter_rows():
        datagram = datagrams.get((number, message_id or 0, bool((flags or 0) & FLAG_RESPONSE), fragment or 0))
        frames.setdefault(message, []).append((number, fragment, datagram))
    start = analysis.handshakes["start_ns"][0]
    table = cast_text_columns(analysis.messages).sort("first_ns", "message")
    for row in table.iter_rows(named=True):
        frames_of_message = sorted(frames.get(row["message"], ()), key=lambda frame: frame[0])
        start = row["first_ns"] if start is None else start
        parts: dict[int, CapturedPart] = {}
        for number, fragment, datagram in frames_of_message:
            if datagram is not None and datagram not in parts and collected.bytes.get(datagram):
                parts[datagram] = CapturedPart(number, fragment, collected.bytes[datagram])
        yield MessageDetails(
            row=row,
            after_ns=row["first_ns"] - start,
            frames=tuple(dict.fromkeys(number for number, _, _ in frames_of_message)),
            parts=tuple(parts.values()),
            content=next((collected.contents[datagram] for datagram in parts if datagram in collected.contents), None),
        )


def _list_payloads(message: MessageDetails) -> list[str] | None:
    if message.content is not None:
        return list_payload_names(message.content)
    if message.row["protocol"] == "HIP" and message.parts:
        packet = parse_hip(message.parts[0].data)
        return None if packet is None else packet.describe()
    names: list[str] | None = message.row["payloads"]
    return names


def _add_payload_names(analysis: Analysis, messages: Iterable[MessageDetails]) -> Analysis:
    """Return the analysis with the names of the payloads in its messages."""
    names = {message.row["message"]: _list_payloads(message) for message in messages}
    values = [names.get(number) for number in analysis.messages["message"]]
    payloads = pl.Series("payloads", values, dtype=MESSAGES["payloads"])
    return replace(analysis, messages=analysis.messages.with_columns(payloads))
