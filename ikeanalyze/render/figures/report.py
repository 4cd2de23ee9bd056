"""The figures of a report, the ladders not included.

A figure is there only if the tables have something to show in it. The numbers are those of the tables; nothing is
estimated but the densities, whose captions say so.
"""

from collections.abc import Iterator

import polars as pl

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render.figures.distribution import make_distribution_figures
from ikeanalyze.render.figures.figure import Figure
from ikeanalyze.render.figures.groups import group_by_capture
from ikeanalyze.render.figures.times import make_round_trip_figure, make_setup_time_figure
from ikeanalyze.render.figures.volumes import (
    make_link_bytes_figure,
    make_payload_bytes_figure,
    make_retransmission_figure,
)


def make_figures(analysis: Analysis) -> Iterator[Figure]:
    """All figures that `analysis` has something for."""
    yield from make_setup_time_figure(analysis.handshakes)
    yield from make_round_trip_figure(analysis.exchanges)
    yield from make_link_bytes_figure(analysis)
    yield from make_payload_bytes_figure(analysis.handshakes)
    times = analysis.handshakes.filter(pl.col("setup_ns").is_not_null())
    yield from make_distribution_figures(
        {name: [ns / 1e6 for ns in rows["setup_ns"].to_list()] for name, rows in group_by_capture(times).items()},
        name="setup",
        what="set-up time",
        unit="ms",
        of="handshakes with a set-up time",
    )
    yield from make_retransmission_figure(analysis.handshakes)
