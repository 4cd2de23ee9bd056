"""Selected handshakes: the examples begin 10 s, 20 s... after START, which is 2025-11-24 16:00:00.123456789 UTC."""

from dataclasses import replace

import polars as pl
import pytest

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.analysis.result import Analysis
from ikeanalyze.analysis.tables.filter_language import parse_filter
from ikeanalyze.analysis.tables.selection import HandshakeSelection, parse_capture_time, select_handshakes
from tests.paths import CAPTURES
from tests.render.analysis_examples import analysis

EXAMPLE = analysis(range(1, 9))
#: The first packet is that of handshake 1.
FIRST = EXAMPLE.captures[0].first_ns


def select(example: Analysis, words: str | None = None, begin: str | None = None, end: str | None = None) -> Analysis:
    times = (None if text is None else parse_capture_time(text) for text in (begin, end))
    return select_handshakes(example, HandshakeSelection(None if words is None else parse_filter(words), *times))


def ids(selected: Analysis) -> list[int]:
    return selected.handshakes["handshake"].to_list()


def test_without_a_selection_nothing_changes():
    assert not HandshakeSelection()
    assert select(EXAMPLE) is EXAMPLE


def test_every_table_has_the_rows_of_the_selected_handshakes():
    selected = select(EXAMPLE, "outcome:failed")
    failed = [row["handshake"] for row in EXAMPLE.handshakes.to_dicts() if row["outcome"] == "failed"]
    assert ids(selected) == failed != []
    for name in ("frames", "messages", "exchanges"):
        before, after = getattr(EXAMPLE, name), getattr(selected, name)
        assert after.equals(before.filter(pl.col("handshake").is_in(failed)))
        assert after.height
    assert selected.captures == EXAMPLE.captures


def test_a_period_has_its_begin_but_not_its_end():
    assert ids(select(EXAMPLE, begin="10", end="40")) == [2, 3, 4]
    assert ids(select(EXAMPLE, begin="10.0000001")) == list(range(3, 9))
    assert ids(select(EXAMPLE, end="9.9")) == [1]
    assert ids(select(EXAMPLE, begin="10000")) == []


@pytest.mark.parametrize(
    "text", ["2025-11-24T16:00:30.123456", "2025-11-24 16:00:30.123456Z", "2025-11-24T17:00:30.123456789+01:00"]
)
def test_absolute_times_are_in_utc_unless_they_have_an_offset(text):
    assert ids(select(EXAMPLE, begin=text)) == list(range(3, 9))
    assert ids(select(EXAMPLE, end=text)) == [1, 2]


def test_conditions_are_combined():
    outcomes = dict(EXAMPLE.handshakes.select("handshake", pl.col("outcome").cast(pl.String)).iter_rows())
    wanted = [number for number in range(3, 9) if outcomes[number] != "established"]
    assert ids(select(EXAMPLE, "!outcome:established", begin="20")) == wanted


def test_the_start_is_that_of_each_capture():
    paths = [str(CAPTURES / name) for name in ("loss20-classic.pcap", "psk-classic.pcap")]
    read = read_captures(paths)
    assert select(read, end="0.001").handshakes["capture"].cast(pl.String).to_list() == paths


def test_ids_that_begin_again_in_each_capture_are_kept_apart():
    paths = [str(CAPTURES / name) for name in ("loss20-classic.pcap", "psk-classic.pcap")]
    read = read_captures(paths, ReadOptions(ids_per_capture=True))
    selected = select(read, "capture:psk-classic")
    assert selected.messages.height == 4  # IKE_SA_INIT and IKE_AUTH
    assert set(selected.messages["capture"].cast(pl.String)) == {paths[1]}


def test_an_unknown_start_is_in_no_period():
    unknown = EXAMPLE.handshakes.with_columns(pl.lit(None, pl.Int64).alias("start_ns"))
    assert ids(select(replace(EXAMPLE, handshakes=unknown), begin="0")) == []


@pytest.mark.parametrize("text", ["abc", "10ms", "-1", "", "12:00", "2026-13-01T00:00:00", "nan"])
def test_other_texts_are_not_times(text):
    with pytest.raises(ValueError, match="is not a time: seconds from the start of the capture, such as"):
        parse_capture_time(text)


def test_the_texts_of_the_options_are_kept():
    selection = HandshakeSelection(parse_filter("Rtx>1"), parse_capture_time("1.50"), parse_capture_time("2026-01-31"))
    assert selection.to_dict() == {"filter": "Rtx>1", "from": "1.50", "to": "2026-01-31"}
    assert HandshakeSelection().to_dict() == {}
