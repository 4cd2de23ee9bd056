"""The payloads of one handshake are the same whether those of the others are decoded or not."""

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.render.report.selection import select_set_ups
from tests.paths import CAPTURES, LAB_CAPTURES

RECORDED = [*sorted(CAPTURES.glob("*.pcap*")), *sorted(LAB_CAPTURES.glob("*.pcap*"))[::4]]
TABLES = ("frames", "messages", "exchanges", "handshakes")


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_a_handshake_is_the_same_without_the_payloads_of_others(path):
    complete = read_captures(path, ReadOptions(payloads=True))
    first = select_set_ups(complete).handshakes["handshake"].min()
    last = complete.handshakes["handshake"].max()
    for asked, shown in (("first", first), (last, last)):
        single = read_captures(path, ReadOptions(payloads=True, payloads_of=asked))
        chosen = pl.col("handshake") == shown
        for name in TABLES:
            tables = (getattr(analysis, name).filter(chosen) for analysis in (single, complete))
            assert_frame_equal(*tables)


def test_payloads_of_other_handshakes_are_not_decoded():
    path = CAPTURES / "ip-fragments-loss10.pcap"  # a message of the third handshake and one of the fourth lack bytes
    messages = read_captures(path, ReadOptions(payloads=True, payloads_of=2)).messages
    assert messages.filter(pl.col("payloads").is_not_null())["handshake"].unique().to_list() == [2]
    warnings = {
        handshake: [
            warning.frame
            for warning in read_captures(path, ReadOptions(payloads=True, payloads_of=handshake)).warnings
            if warning.message.startswith("payloads: ")
        ]
        for handshake in (2, 3, 4, 5)
    }
    assert warnings == {2: [], 3: [47], 4: [80], 5: []}
