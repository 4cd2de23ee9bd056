"""Options for reading and analysing captures."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessages
    from ikeanalyze.analysis.state import AnalysisState
    from ikeanalyze.analysis.tables.columns import TableColumns
    from ikeanalyze.capture.buffers import MessageBytes
    from ikeanalyze.keys.detect import KeyFile

    KeyFiles = str | Path | Sequence[str | Path | KeyFile]
    TableCallback = Callable[[str, pl.DataFrame], object]
    ColumnsCallback = Callable[[str, TableColumns], bool]
    ContentsCallback = Callable[[AnalysisState, MessageBytes, DecodedMessages], object]

Progress = Callable[[int, int | None], None]
#: The side that a capture was taken on. It is here, not in `capture_point`, because a command line is read before the
#: modules of the analysis are loaded.
Vantage = Literal["initiator", "responder"]


class ReadOptions(Struct, frozen=True, kw_only=True):
    """Options of `read.analyse_captures`.

    Raises:
        ValueError: both `cleartext` and `ids_per_capture` are set: the ids of decrypted messages must be unique.
    """

    names: Mapping[str, str] = field(default_factory=dict)  # by path: a name of the file to show in its place
    ports: Sequence[int] = ()  # UDP and TCP ports that carry IKE besides 500 and 4500
    vantage: Vantage | None = None  # side on which the captures were taken; None: inferred
    rtt_ms: float | None = None  # round-trip time of the path; None: from the lab's manifest, or estimated
    lab_manifests: bool = True  # use the capture point and the path in the lab's manifest next to a capture
    keys: "KeyFiles" = ()  # paths of key files, or parsed key files
    own_keys: "Mapping[str, KeyFiles] | None" = None  # by path of a capture: additional keys for it alone
    join: bool = False  # the captures are files of one recording, as of a ring buffer: read them as one capture
    ids_per_capture: bool = False  # begin the ids again in each capture; otherwise they are unique in all captures
    payloads: bool = False  # list the payloads of clear messages too
    #: With `payloads`: only those of the handshake with this id, or of the first handshakes up to one that is certainly
    #: not a rekeyed IKE SA, and of the handshakes that the keys decrypt. None: of all handshakes.
    payloads_of: int | Literal["first"] | None = None
    cleartext: bool = False  # keep decrypted messages: `Analysis.cleartexts` has them by the ids of the messages
    frames_table: bool = True  # build the table of frames; otherwise it is empty
    messages_table: bool = True  # the same for the table of messages
    payload_sizes: bool = False  # keep the sizes of the payloads that are decoded: `Analysis.payload_sizes`
    progress: Progress | None = None  # called with the bytes read of a file and its size (None: unknown)
    #: Called with the name of a table and the table when it is complete, from any thread and before the others are. Not
    #: called if there are several captures, because each has tables of its own.
    on_table: "TableCallback | None" = None
    #: Called with the name and the columns of a table before the table is made of them, as `on_table` is. If it returns
    #: True, the table is not made, and is empty in the result; that of handshakes has `handshake` and `rekeyed` alone,
    #: and null in the other columns.
    on_columns: "ColumnsCallback | None" = None
    #: Called with the name of a table and the columns that are known before the others; their layout has them alone. If
    #: it returns True, `on_columns` gets the others. It should return before it has written them.
    on_first_columns: "ColumnsCallback | None" = None
    on_contents: "ContentsCallback | None" = None  # called with the decoded contents of each capture

    def __post_init__(self) -> None:
        if self.cleartext and self.ids_per_capture:
            raise ValueError("cleartext and ids_per_capture cannot be combined: ids of messages would not be unique")

    @property
    def rtt_ns(self) -> int | None:
        """Round-trip time of the path in nanoseconds."""
        return None if self.rtt_ms is None else round(self.rtt_ms * 1e6)
