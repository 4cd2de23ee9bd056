"""How captures are to be read and analysed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ikeanalyze.analysis.exchanges.capture_point import Vantage

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessages
    from ikeanalyze.analysis.state import AnalysisState
    from ikeanalyze.capture.buffers import MessageBytes
    from ikeanalyze.keys.detect import KeyFile

    KeyFiles = str | Path | Sequence[str | Path | KeyFile]
    TableCallback = Callable[[str, pl.DataFrame], object]
    ContentsCallback = Callable[[AnalysisState, MessageBytes, DecodedMessages], object]

Progress = Callable[[int, int | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options of `read.read`.

    Raises:
        ValueError: `cleartext` and `own_ids`: decrypted messages need ids that are of one message each.
    """

    ports: Sequence[int] = ()  # UDP and TCP ports that carry IKE besides 500 and 4500
    vantage: Vantage | None = None  # side that the captures were taken on; None: the TTLs decide
    rtt_ms: float | None = None  # round-trip time of the path; None: the shortest one seen
    keys: "KeyFiles" = ()  # key files of any kind that `keys.files` reads, or their contents
    own_keys: "Mapping[str, KeyFiles] | None" = None  # by path, as given to `read`: more keys for that capture alone
    own_ids: bool = False  # ids in the tables begin anew in each capture, and do not count through all of them
    payloads: bool = False  # name the payloads of clear messages too, with or without keys
    cleartext: bool = False  # keep decrypted messages: `Analysis.cleartexts` has them by the ids of the messages
    progress: Progress | None = None  # called with the bytes read of a file and its size (None: unknown)
    #: Called with the name of a table and the table when it is complete, from any thread and before the others are. Not
    #: called if there are several captures, because each has tables of its own.
    finished: "TableCallback | None" = None
    looked: "ContentsCallback | None" = None  # called for each capture whose messages were looked into (see `steps`)

    def __post_init__(self) -> None:
        if self.cleartext and self.own_ids:
            raise ValueError("cleartext needs ids that count through all captures, own_ids asks for others")

    @property
    def rtt_ns(self) -> int | None:
        """Round-trip time of the path in nanoseconds."""
        return None if self.rtt_ms is None else round(self.rtt_ms * 1e6)
