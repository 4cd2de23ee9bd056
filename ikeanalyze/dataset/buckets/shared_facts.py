"""The facts that the buckets of a capture share: those of one bucket, and those of all.

A bucket shares the rows that a rule starts from (`SharedFact`), without those that change no result. The facts of the
capture are the rows of all buckets together, without those that change no result. So merging does not depend on the
order of the buckets, and buckets of any number share about as much as the capture has hosts. What a bucket shares stays
on disk: of the rows of all buckets, only those that some bucket depends on are in memory.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
import xxhash

from ikeanalyze.analysis.messages.capture_facts import CaptureFacts, Rows, SharedFact
from ikeanalyze.capture.arrays import UInt64Array
from ikeanalyze.dataset.buckets.frame_buckets import BucketFolder

#: Facts on which no other fact depends.
FINAL_FACTS: Final = frozenset(
    {
        SharedFact.DOUBLED,
        SharedFact.MISSING_FRAGMENTS,
        SharedFact.WRONG_FLAGS,
        SharedFact.DECRYPTED_REQUESTS,
        SharedFact.REPEATED_SET_UPS,
        SharedFact.CREATED_SAS,
        SharedFact.PATH_INTERVALS,
        SharedFact.UNUSED_RTT,
        SharedFact.CONTRADICTED_RTT,
        SharedFact.UNCERTAIN_TIMES,
        SharedFact.LAB_HANDSHAKES,
        SharedFact.RESPONDERS_ON_4500,
        SharedFact.PORT_4500,
        SharedFact.REDIRECTED_SET_UPS,
        SharedFact.ACCEPTED_PROPOSALS,
        SharedFact.ICMP_ERRORS,
    }
)
#: Facts of more rows are in files.
_ROWS_IN_MEMORY: Final = 16
_HOSTS: Final = ("initiator", "responder")
_SIDE: Final = (*_HOSTS, "by_responder")
_MIRROR_HOSTS: Final = ("first", "second", "interface")


def _sum_all(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.sum()


def _sum_counts(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.group_by(_MIRROR_HOSTS).agg(pl.col("count").sum())


def _keep_all(rows: pl.DataFrame) -> pl.DataFrame:
    return rows


def _keep_shortest_gaps(rows: pl.DataFrame) -> pl.DataFrame:
    """The two shortest gaps: a round trip counts if two exchanges agree on it."""
    return rows.sort("gap").group_by(*_HOSTS, "repeated", maintain_order=True).head(2)


def _add_paths(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.group_by(_HOSTS).agg(pl.col("often", "seldom").sum(), pl.col("longest", "timer").min())


def _keep_shortest_intervals(rows: pl.DataFrame) -> pl.DataFrame:
    """The shortest certain interval, and the possible ones that are shorter."""
    certain = rows.filter("certain").sort("interval", "wait").group_by(_SIDE, maintain_order=True).head(1)
    shortest = certain.select(*_SIDE, pl.col("interval").alias("shortest"))
    possible = rows.filter(~pl.col("certain")).unique().join(shortest, on=_SIDE, how="left")
    possible = possible.filter(pl.col("shortest").is_null() | (pl.col("interval") < pl.col("shortest")))
    return pl.concat([certain, possible.select(certain.columns)])


def _keep_earliest(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.sort(rows.columns).unique("responder", keep="first")


def _keep_latest(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.sort("error", "sent_ns", "frame").unique("error", keep="last")


_REDUCTIONS: Final[Mapping[SharedFact, Callable[[pl.DataFrame], pl.DataFrame]]] = {
    SharedFact.COPIED_REQUESTS: _sum_counts,
    SharedFact.SENT_REQUESTS: _sum_counts,
    SharedFact.TRANSLATED: pl.DataFrame.unique,
    SharedFact.SEVERAL_FRAMES: pl.DataFrame.max,
    SharedFact.DOUBLED: _sum_all,
    SharedFact.RADIUS: pl.DataFrame.unique,
    SharedFact.WAITING: pl.DataFrame.unique,
    SharedFact.ROUND_TRIPS: _keep_shortest_gaps,
    SharedFact.LONG_PATHS: _add_paths,
    SharedFact.MISSING_FRAGMENTS: _keep_all,
    SharedFact.WRONG_FLAGS: _keep_all,
    SharedFact.DECRYPTED_REQUESTS: _keep_all,
    SharedFact.REPEATED_SET_UPS: _keep_all,
    SharedFact.CREATED_SAS: lambda rows: rows.group_by(_HOSTS).agg(pl.col("ns").min()),
    SharedFact.PATH_INTERVALS: _keep_shortest_intervals,
    SharedFact.UNUSED_RTT: _sum_all,
    SharedFact.CONTRADICTED_RTT: _sum_all,
    SharedFact.UNCERTAIN_TIMES: _sum_all,
    SharedFact.LAB_HANDSHAKES: pl.DataFrame.unique,
    SharedFact.RESPONDERS_ON_4500: pl.DataFrame.unique,
    SharedFact.PORT_4500: _sum_all,
    SharedFact.REDIRECTED_SET_UPS: pl.DataFrame.unique,
    SharedFact.ACCEPTED_PROPOSALS: _keep_earliest,
    SharedFact.ICMP_ERRORS: _keep_latest,
}


def merge_facts(fact: SharedFact, parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """The rows of several buckets, without those that change no result, in a fixed order."""
    rows = pl.concat(list(parts))
    rows = _REDUCTIONS[fact](rows) if rows.height else rows
    return rows.sort(rows.columns)


def fingerprint(rows: pl.DataFrame) -> int:
    """A number that differs for different rows."""
    digest = xxhash.xxh3_64()
    for column in rows.iter_columns():
        digest.update(column.to_numpy().tobytes())
    return digest.intdigest() ^ rows.height


def make_frame(rows: Rows) -> pl.DataFrame:
    """Shared rows as a table."""
    return pl.DataFrame({name: np.asarray(column) for name, column in rows.items()})


class BucketFacts(CaptureFacts):
    """Facts of a capture for one of its buckets, and those that the bucket shares."""

    partial = True

    def __init__(self, known: Mapping[SharedFact, pl.LazyFrame], *, collect: bool) -> None:
        """`known` are the facts of the capture so far; without `collect`, the bucket shares nothing."""
        self.shared: dict[SharedFact, pl.DataFrame] = {}
        self.used: dict[SharedFact, UsedFact] = {}
        self._known = known
        self._collect = collect

    def share(
        self,
        fact: SharedFact,
        rows: Callable[[], Rows],
        *,
        needed: bool = True,
        hosts: Callable[[], UInt64Array] | None = None,
    ) -> Rows | None:
        """Share rows; return those of the capture, or None if they are not known or not needed."""
        if self._collect:
            self.shared[fact] = merge_facts(fact, [make_frame(rows())])
        if not needed:
            return None
        pairs = None if hosts is None else find_host_pairs(hosts())
        scan = self._known.get(fact)
        # reading them lazily keeps those of other hosts out of memory
        known = None if scan is None else select_hosts(scan, pairs).collect()
        if self._collect and fact not in FINAL_FACTS:
            own = select_hosts(self.shared[fact].lazy(), pairs).collect()
            self.used[fact] = UsedFact(fingerprint(own if known is None else known), pairs)
        return None if known is None else {name: known[name].to_numpy() for name in known.columns}


@dataclass(frozen=True, slots=True)
class UsedFact:
    """What the results of a bucket depend on."""

    number: int  # the fingerprint of the rows
    hosts: pl.DataFrame | None  # only those of these hosts; None: all


def find_host_pairs(hosts: UInt64Array) -> pl.DataFrame:
    """The different pairs of initiator and responder, of the address codes of both. (2, n)"""
    return pl.DataFrame(dict(zip(_HOSTS, hosts, strict=True))).unique()


def select_hosts(rows: pl.LazyFrame, hosts: pl.DataFrame | None) -> pl.LazyFrame:
    """The rows of pairs of hosts, in order; all if `hosts` is None."""
    if hosts is None:
        return rows
    chosen = rows.join(hosts.lazy(), on=_HOSTS, how="semi")
    return chosen.sort(chosen.collect_schema().names())


@dataclass(slots=True)
class SurveyedBucket:
    """What a bucket shares, and what that depends on."""

    index: int
    shared: dict[SharedFact, pl.DataFrame | Path] = field(default_factory=dict)
    used: dict[SharedFact, UsedFact] = field(default_factory=dict)

    def scan(self, fact: SharedFact) -> pl.LazyFrame:
        """The rows of a fact that the bucket shares."""
        rows = self.shared[fact]
        return pl.scan_ipc(rows) if isinstance(rows, Path) else rows.lazy()


def store_facts(facts: BucketFacts, index: int, folder: BucketFolder) -> SurveyedBucket:
    """What a bucket shares; the larger tables are written to its folder."""
    shared: dict[SharedFact, pl.DataFrame | Path] = {}
    for fact, rows in facts.shared.items():
        shared[fact] = rows
        if rows.height > _ROWS_IN_MEMORY:
            path = folder.get_file(index, f"{fact.name}.arrow")
            # a process may still map the file of an earlier survey, which therefore keeps its contents
            path.unlink(missing_ok=True)
            folder.write_table(rows, path, "uncompressed")
            shared[fact] = path
    return SurveyedBucket(index, shared, facts.used)


@dataclass(slots=True)
class SharedFacts:
    """The facts of all buckets, as far as they are known."""

    known: dict[SharedFact, pl.DataFrame]
    buckets: dict[int, SurveyedBucket] = field(default_factory=dict)

    def update(self, surveyed: Iterable[SurveyedBucket]) -> set[int]:
        """Enter what buckets share; return the buckets that must be analysed again because a fact has changed."""
        self.buckets.update((bucket.index, bucket) for bucket in surveyed)
        changed: set[int] = set()
        for fact in SharedFact:
            scans = [bucket.scan(fact) for bucket in self.buckets.values() if fact in bucket.shared]
            if not scans:
                self.known.pop(fact, None)
                continue
            used = {index: bucket.used[fact] for index, bucket in self.buckets.items() if fact in bucket.used}
            if fact not in FINAL_FACTS:
                if not used:
                    self.known.pop(fact, None)
                    continue
                scans = _select_used(scans, list(used.values()))
            self.known[fact] = merge_facts(fact, (scan.collect() for scan in scans))
            for index, use in used.items():
                rows = select_hosts(self.known[fact].lazy(), use.hosts).collect()
                if fingerprint(rows) != use.number:
                    changed.add(index)
        return changed

    def find_waiting(self) -> set[int]:
        """Initiators' SPIs of IKE SAs outside of the common bucket that may have waited for RADIUS."""
        waiting: set[int] = set()
        for index, bucket in self.buckets.items():
            if index and SharedFact.WAITING in bucket.shared:
                waiting.update(bucket.scan(SharedFact.WAITING).collect()["spi_i"].to_list())
        return waiting


def _select_used(parts: Sequence[pl.LazyFrame], used: Sequence[UsedFact]) -> list[pl.LazyFrame]:
    """The rows that some bucket depends on."""
    hosts = [use.hosts for use in used if use.hosts is not None]
    if len(hosts) < len(used):
        return list(parts)
    pairs = pl.concat(hosts).unique().lazy()
    return [part.join(pairs, on=_HOSTS, how="semi") for part in parts]
