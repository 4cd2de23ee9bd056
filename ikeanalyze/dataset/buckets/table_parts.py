"""Writes the rows of each bucket in parts of the tables, and merges the parts in order.

Part n of a table has the rows with ids from n times its size on; part n of the frames table has those between two frame
numbers. Each bucket writes a file for each table, with a block (an Arrow stream) for each part that it has rows of, and
a list of these blocks: a file for each part would be tens of thousands of files. Merging a part sorts the rows of all
its blocks, so memory does not grow with the table. It writes them in small files, because polars reads several ahead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from ikeanalyze.analysis import schema
from ikeanalyze.analysis.tables.tables import AnalysisTables
from ikeanalyze.capture.arrays import Int64Array, UInt64Array
from ikeanalyze.dataset.buckets.frame_buckets import BucketFolder
from ikeanalyze.dataset.buckets.numbering import RowTotals

LAYOUTS: Final = {
    "frames": schema.FRAMES,
    "messages": schema.MESSAGES,
    "exchanges": schema.EXCHANGES,
    "handshakes": schema.HANDSHAKES,
}
_ID: Final = {"messages": "message", "exchanges": "exchange", "handshakes": "handshake"}
#: Rows of a part, of which each takes memory while it is merged. A row of handshakes is a kilobyte.
_SIZE: Final = {"messages": 1 << 17, "exchanges": 1 << 17, "handshakes": 1 << 14}
#: Parts of a table: each bucket has a block for each.
_MAX_PARTS: Final = 256
#: A block in the file of a bucket: part of the table, bucket, and first byte and bytes in the file.
_BLOCK: Final = np.dtype([("part", np.int64), ("bucket", np.int64), ("offset", np.int64), ("size", np.int64)])
#: End of the names of files with lists of blocks.
_BLOCKS: Final = "-blocks.npy"
#: Rows of a file of a merged table.
_MERGED_SIZE: Final = {"frames": 1 << 14, "messages": 1 << 14, "exchanges": 1 << 14, "handshakes": 1 << 11}
#: Of the frames table, while its parts are merged: rows of one frame are in the order in which they were collected.
_SEQUENCE: Final = "sequence"


@dataclass(frozen=True, slots=True)
class PartBounds:
    """How the tables are divided."""

    frames: Sequence[int]  # frame numbers: the last ones of all parts but the last
    rows: Mapping[str, int]  # rows of a part of the other tables


def divide_tables(part_starts: Sequence[int], totals: RowTotals) -> PartBounds:
    """Divide the tables; `part_starts` are frame numbers that divide the frames table into many parts."""
    starts = sorted(set(part_starts))
    rows = {name: max(size, -(-getattr(totals, name) // _MAX_PARTS)) for name, size in _SIZE.items()}
    return PartBounds(starts[:: -(-len(starts) // _MAX_PARTS) or 1], rows)


def write_parts(
    tables: AnalysisTables, sequence: UInt64Array, folder: BucketFolder, index: int, bounds: PartBounds
) -> None:
    """Write the rows of a bucket.

    Args:
        tables: the rows.
        sequence: place of each frame among all of the capture. (frames,)
        folder: of the buckets.
        index: of the bucket.
        bounds: of the parts.
    """
    for name in LAYOUTS:
        table: pl.DataFrame = getattr(tables, name)
        if name == "frames" and table.height:
            table = table.with_columns(pl.Series(_SEQUENCE, sequence))
            part = np.searchsorted(np.array(bounds.frames, np.int64), table["number"].to_numpy())
        elif table.height:
            part = table[_ID[name]].to_numpy().astype(np.int64) // bounds.rows[name]
        else:
            continue
        _write_table(table, part.astype(np.int64), folder, name, index)


def _write_table(table: pl.DataFrame, part: Int64Array, folder: BucketFolder, name: str, index: int) -> None:
    # the rows are in order, so those of a part stand together
    numbers, start = np.unique(part, return_index=True)
    blocks = np.zeros(len(numbers), _BLOCK)
    blocks["part"], blocks["bucket"] = numbers, index
    with folder.create(index, name) as file:
        for row, (low, high) in enumerate(pairwise([*start.tolist(), len(part)])):
            data = BytesIO()  # polars reports an error of writing to a file in several ways
            table.slice(low, high - low).write_ipc_stream(data, compression="lz4")
            blocks[row]["offset"], blocks[row]["size"] = file.tell(), data.tell()
            file.write(data.getbuffer())
    with folder.create(index, f"{name}{_BLOCKS}") as file:
        np.save(file, blocks)


def merge_parts(folder: BucketFolder, name: str) -> pl.LazyFrame:
    """The whole table from the parts of all buckets, which are removed."""
    lists = folder.find_files(f"{name}{_BLOCKS}")
    if not lists:
        return pl.DataFrame(schema=LAYOUTS[name]).lazy()
    merged: list[Path] = []
    blocks = np.concatenate([np.load(path) for path in lists])
    blocks = blocks[np.argsort(blocks["part"], kind="stable")]
    for of_part in np.split(blocks, np.flatnonzero(np.diff(blocks["part"])) + 1):
        rows = pl.concat([_read_block(folder, name, block) for block in of_part])
        if name == "frames":
            rows = rows.sort("number", _SEQUENCE).drop(_SEQUENCE)
        else:
            rows = rows.sort(_ID[name])
        for piece in rows.iter_slices(_MERGED_SIZE[name]):
            merged.append(folder.path / f"{name}-{len(merged):08}.arrow")
            folder.write_table(piece, merged[-1])
    for path in [*lists, *folder.find_files(name)]:
        path.unlink()
    return pl.scan_ipc(merged)


def _read_block(folder: BucketFolder, name: str, block: np.void) -> pl.DataFrame:
    with open(folder.get_file(block["bucket"], name), "rb") as file:
        file.seek(block["offset"])
        return pl.read_ipc_stream(BytesIO(file.read(block["size"])))
