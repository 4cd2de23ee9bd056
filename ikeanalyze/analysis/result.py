"""The result of an analysis: the four tables, a summary of each capture, and warnings."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import polars as pl

    from ikeanalyze.analysis.decryption.export import Cleartext
    from ikeanalyze.wire.ikev2.payload_size import PayloadSize

#: Every packet of a capture is counted under exactly one of these.
ACCOUNTING = ("ike", "esp", "ah", "nat_keepalive", "radius", "hip", "tcp_encapsulation", "icmp", "other", "malformed")


def format_path(path: str) -> str:
    """A path as text for tables and documents: bytes that are not UTF-8 are escaped."""
    return os.fsencode(path).decode(errors="backslashreplace")


@dataclass(frozen=True, slots=True)
class CaptureSummary:
    """A capture that was read, completely or up to its damage."""

    path: str  # as it was given, invalid UTF-8 escaped; "-" is standard input
    format: str  # "pcap" or "pcapng"; of joined files of both formats "pcap+pcapng"
    packets: int
    bytes: int  # sum of the frame lengths on the wire
    first_ns: int | None  # time of the first packet, ns since 1970-01-01 UTC; None: no packets
    last_ns: int | None
    snaplen_truncated: int  # packets that the file has only in part
    damaged: bool  # the file is cut or damaged after the last packet that was read
    accounting: Mapping[str, int]  # packets by ACCOUNTING; they add up to `packets`
    accounting_bytes: Mapping[str, int]  # bytes by ACCOUNTING; they add up to `bytes`
    files: tuple[str, ...] = ()  # that were joined to this capture, in order; empty: it is one file
    #: Time in ns that the link takes to transmit a byte from the initiator, and to it, by the manifest of the lab that
    #: recorded the capture; 0: no limit, or unknown.
    byte_ns: tuple[float, float] = (0.0, 0.0)


class SkippedFile(msgspec.Struct, frozen=True):
    """A capture or key file that could not be read."""

    path: str
    reason: str  # one line: the problem, where it is, and what to do
    keys: bool = False  # a key file
    internal_error: bool = False  # the file is not the reason, but a bug or a lack of memory


class AnalysisWarning(msgspec.Struct, frozen=True):
    """A problem in a capture that was read nevertheless."""

    capture: str
    frame: int | None  # number of the packet, None: the capture as a whole
    message: str

    def __str__(self) -> str:
        """The message, after the number of the packet."""
        return self.message if self.frame is None else f"packet {self.frame}: {self.message}"


class AppliedSelection(msgspec.Struct, frozen=True):
    """Why an analysis has only some of the handshakes of its captures."""

    options: Mapping[str, str]  # "filter", "from" and "to", as far as they were given
    selected: int  # handshakes in the tables, without rekeyed IKE SAs
    total: int  # handshakes in the captures


class RequestedDetails(msgspec.Struct):
    """Details of messages that were asked for, by the ids of the messages."""

    cleartexts: "dict[int, Cleartext]" = msgspec.field(default_factory=dict)
    payload_sizes: "dict[int, tuple[PayloadSize, ...]]" = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Analysis:
    """The result: tables as in `schema`, over all captures that could be read."""

    captures: list[CaptureSummary]
    frames: "pl.DataFrame"
    messages: "pl.DataFrame"
    exchanges: "pl.DataFrame"
    handshakes: "pl.DataFrame"
    warnings: list[AnalysisWarning] = field(default_factory=list)
    skipped: list[SkippedFile] = field(default_factory=list)
    selection: AppliedSelection | None = None  # None: all handshakes
    #: Decrypted messages by their ids in `messages`, where they were asked for.
    cleartexts: "Mapping[int, Cleartext]" = field(default_factory=dict)
    #: The payloads of decoded messages of IKEv2 by their ids in `messages`, where they were asked for.
    payload_sizes: "Mapping[int, tuple[PayloadSize, ...]]" = field(default_factory=dict)

    def __repr__(self) -> str:
        """The numbers of captures and rows, and the skipped files."""
        tables = ("handshakes", "exchanges", "messages", "frames")
        parts = [f"captures: {len(self.captures):,}"]
        parts += [f"{name}: {getattr(self, name).height:,}" for name in tables]
        parts += [f"warnings: {len(self.warnings):,}"] if self.warnings else []
        parts += [f"skipped: {file.path} ({file.reason})" for file in self.skipped]
        return f"<Analysis, {', '.join(parts)}>"

    def _repr_html_(self) -> str:
        """The same in notebooks, with a table of the handshakes."""
        # late: only notebooks need them
        from html import escape

        import polars as pl

        from ikeanalyze.analysis.tables.search_table import build_search_table

        milliseconds = (pl.col("setup") / 1e6).round(3).alias("setup_ms")
        columns = ("messages", "bytes", "retransmissions", "kex", "auth", "diagnosis")
        table = build_search_table(self.handshakes).select("handshake", "capture", "outcome", milliseconds, *columns)
        return f"<p>{escape(repr(self))}</p>{table._repr_html_()}"
