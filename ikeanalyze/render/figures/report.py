"""The figures of a report, the ladders not included.

A figure is there only if the tables have something to show in it. The numbers are those of the tables; nothing is
estimated but the densities, whose captions say so.
"""

from collections.abc import Iterator

import polars as pl

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render.figures.distribution import distributions
from ikeanalyze.render.figures.figure import Figure
from ikeanalyze.render.figures.groups import by_capture
from ikeanalyze.render.figures.times import round_trips, setup_parts
from ikeanalyze.render.figures.volumes import bytes_by_retransmissions, link_bytes, payload_bytes


def report_figures(analysis: Analysis) -> Iterator[Figure]:
    """All figures that `analysis` has something for."""
    yield from setup_parts(analysis.handshakes)
    yield from round_trips(analysis.exchanges)
    yield from link_bytes(analysis)
    yield from payload_bytes(analysis.handshakes)
    times = analysis.handshakes.filter(pl.col("setup_ns").is_not_null())
    yield from distributions(
        {name: [ns / 1e6 for ns in rows["setup_ns"].to_list()] for name, rows in by_capture(times).items()},
        name="setup",
        what="set-up time",
        unit="ms",
        of="handshakes with a set-up time",
    )
    yield from bytes_by_retransmissions(analysis.handshakes)
