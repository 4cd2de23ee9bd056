"""Finds captures that have the same packets: statistics would count their handshakes several times.

Two captures overlap if they have handshakes with the same SPIs that begin in the same nanosecond: copies, compressed or
not, parts of one recording, merged recordings. A handshake that was captured at both ends begins at two times. They
have the same contents if their packets agree in number, bytes, first and last time as well; a truncated copy, or what
was extracted from a capture, does not. Files with equal digests are copies, even without handshakes.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Final

import polars as pl

#: Captures that a sentence names. A folder of a thousand copies is one line all the same.
_MAX_NAMES: Final = 5


@dataclass(frozen=True, slots=True)
class CaptureOverlap:
    """Captures that have the same packets."""

    captures: tuple[str, ...]  # in order of names
    shared: int  # handshakes that all of them have
    identical: bool  # they have the same packets, or the files have the same bytes

    def __str__(self) -> str:
        """The sentence for the user."""
        last = self.captures[-1]
        named = self.captures[:-1]
        if len(self.captures) > _MAX_NAMES:
            named = self.captures[: _MAX_NAMES - 2]
            last = f"{len(self.captures) - len(named):,} other captures"
        names = f"{', '.join(named)} and {last}"
        if self.identical:
            return f"{names} have the same contents"
        return f"{names} have {self.shared:,} handshake{'' if self.shared == 1 else 's'} in common"


def find_overlaps(handshakes: pl.LazyFrame, captures: pl.LazyFrame | None = None) -> list[CaptureOverlap]:
    """Return the groups of captures that overlap, those with most handshakes in common first.

    Args:
        handshakes: the table of handshakes of a dataset or a report.
        captures: the table of captures of a dataset, if there is one; without it, captures have the same contents if
            their handshakes have.
    """
    counted = handshakes.filter(~pl.col("rekeyed")).select(pl.col("capture").cast(pl.String), "spi_i", "start_ns")
    repeated = (
        counted.drop_nulls()
        .group_by("spi_i", "start_ns")
        .agg(pl.col("capture").unique().sort())
        .filter(pl.col("capture").list.len() > 1)
        .select("capture")
        .collect()
    )
    shared = Counter(tuple(names) for names in repeated["capture"].to_list())
    named = list({name for names in shared for name in names})
    extents = _measure_captures(handshakes, captures, named)
    overlaps = [
        CaptureOverlap(names, count, len({extents[name] for name in names}) == 1)
        for names, count in shared.most_common()
    ]
    named_together = [set(overlap.captures) for overlap in overlaps if overlap.identical]
    for copies in _find_equal_files(captures):
        if not any(names.issuperset(copies.captures) for names in named_together):
            overlaps.append(copies)
    return overlaps


def _measure_captures(
    handshakes: pl.LazyFrame, captures: pl.LazyFrame | None, names: list[str]
) -> dict[str, tuple[int, ...]]:
    """Return what a capture and its copy have in common: number, bytes, first and last time of the packets; without a
    table of captures number, last time, frames and bytes of the handshakes.
    """
    if not names:
        return {}
    named = pl.col("capture").cast(pl.String).is_in(names)
    if captures is not None:
        table = captures.filter(named).select("capture", "packets", "bytes", "first_ns", "last_ns")
    else:
        frames = pl.sum("initiator_frames", "responder_frames", "initiator_bytes", "responder_bytes")
        table = handshakes.filter(named).group_by("capture").agg(pl.len(), pl.max("end_ns"), frames)
    return {str(row[0]): row[1:] for row in table.collect().iter_rows()}


def _find_equal_files(captures: pl.LazyFrame | None) -> list[CaptureOverlap]:
    if captures is None:
        return []
    read = captures.filter(pl.col("state") == "read").drop_nulls("sha256")
    groups = read.group_by("sha256").agg(pl.col("capture").sort()).filter(pl.col("capture").list.len() > 1)
    return [CaptureOverlap(tuple(names), 0, identical=True) for names in sorted(groups.collect()["capture"].to_list())]
