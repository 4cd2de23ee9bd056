"""Facts about hosts that the handshakes of a live capture share, as those of one report do.

A report compares all handshakes of two hosts: the shortest round trip, how often requests repeat, which endpoints a NAT
translates. Live, a handshake is compared with those that ended before it. The facts of each are kept in the reduced
form of `dataset.buckets.shared_facts`, of a size that grows with the number of hosts and is bounded.
"""

from collections.abc import Callable
from typing import Final

import polars as pl

from ikeanalyze.analysis.messages.capture_facts import CaptureFacts, Rows, SharedFact
from ikeanalyze.capture.arrays import UInt64Array
from ikeanalyze.dataset.buckets.shared_facts import find_host_pairs, make_frame, merge_facts, select_hosts

#: Facts that are not kept: they are about single handshakes, or only for warnings.
_OWN: Final = frozenset(
    {
        SharedFact.SEVERAL_FRAMES,
        SharedFact.DOUBLED,
        SharedFact.RADIUS,
        SharedFact.WAITING,
        SharedFact.MISSING_FRAGMENTS,
        SharedFact.WRONG_FLAGS,
        SharedFact.DECRYPTED_REQUESTS,
        SharedFact.REPEATED_SET_UPS,
        SharedFact.UNUSED_RTT,
        SharedFact.CONTRADICTED_RTT,
        SharedFact.UNCERTAIN_TIMES,
        SharedFact.LAB_HANDSHAKES,
        SharedFact.ICMP_ERRORS,
    }
)
#: Rows of a fact; more are forgotten at once, since spoofed addresses may be without number.
_MOST_ROWS: Final = 200_000

#: Facts that are known, by kind.
KnownFacts = dict[SharedFact, pl.DataFrame]


class PathFacts(CaptureFacts):
    """The facts for one run of the analysis: those of earlier handshakes, and of the handshakes of the run."""

    partial = True

    def __init__(self, known: KnownFacts) -> None:
        """`known` are the facts of earlier handshakes."""
        self.known = dict(known)  #: with the facts of this run

    def share(
        self,
        fact: SharedFact,
        rows: Callable[[], Rows],
        *,
        needed: bool = True,
        hosts: Callable[[], UInt64Array] | None = None,
    ) -> Rows | None:
        """Add rows; return those of all handshakes so far, or None if they are not needed."""
        if fact in _OWN:
            return None
        own = make_frame(rows())
        before = self.known.get(fact)
        parts = [own] if before is None else [before, own]
        everything = merge_facts(fact, parts)
        self.known[fact] = everything if everything.height <= _MOST_ROWS else own
        if not needed:
            return None
        if hosts is not None:
            everything = select_hosts(everything.lazy(), find_host_pairs(hosts())).collect()
        return {name: everything[name].to_numpy() for name in everything.columns}
