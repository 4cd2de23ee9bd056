import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.analysis.result import format_path
from ikeanalyze.render.core import values


def test_points_in_time_are_formatted_in_utc():
    assert values.format_iso_time(1_764_000_000_000_000_001) == "2025-11-24T16:00:00.000000001Z"
    assert values.format_iso_time(-1) == "1969-12-31T23:59:59.999999999Z"
    assert values.format_iso_time(None) is None
    assert values.format_time(1_764_000_000_123_456_789) == "2025-11-24 16:00:00.123456 UTC"
    assert values.format_time(None) == "-"


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0.000 ms"),
        (12_345_678, "12.346 ms"),
        (10**9, "1.000 s"),
        (2_500_000_000, "2.500 s"),
        (600 * 10**9, "10 min 0 s"),
        (7200 * 10**9, "2 h 0 min"),
    ],
)
def test_durations_have_a_fitting_unit(ns, text):
    assert values.format_duration(ns) == text


def test_numbers_have_separators_and_unknown_ones_are_a_dash():
    assert values.format_ms(12_345_678_901) == "12,345.679"
    assert values.format_ms(None) == values.format_integer(None) == values.format_ratio(None) == "-"
    assert values.format_count(1, "frame") == "1 frame"
    assert values.format_count(2000, "frame") == "2,000 frames"
    assert values.format_endpoint("2001:db8::1", 500) == "2001:db8::1 port 500"
    assert values.format_endpoint(None, 500) == "-"


def test_key_exchanges_are_named_in_order_of_slots():
    slots = [{"slot": 1, "method": "ML-KEM-768", "id": 36}, {"slot": 2, "method": None, "id": 99}]
    assert values.format_key_exchanges("ECP-384", slots) == "ECP-384 + ML-KEM-768 + method 99"
    assert values.format_key_exchanges(None, None) is None


@given(st.text(st.characters()))
def test_clean_is_printable(text):
    assert values.escape_text(text).isprintable()
    if text.isprintable():
        assert values.escape_text(text) == text


def test_bytes_of_a_path_that_is_not_utf_8_are_written_as_in_tables():
    path = os.fsdecode(b"a\xff.pcap")  # PEP 383
    assert values.escape_text(path) == format_path(path) == r"a\xff.pcap"
    assert values.escape_text("\ud800\n") == r"\ud800\n"


def test_a_share_of_nothing_is_unknown():
    assert values.format_percentage(1, 3) == "33.3 %"
    assert values.format_percentage(3, 3) == "100.0 %"
    assert values.format_percentage(0, 0) == "-"


def test_an_outcome_is_followed_by_its_reason():
    assert values.format_outcome("completed", None) == "completed"
    assert values.format_outcome("failed", "NO_PROPOSAL_CHOSEN") == "failed: NO_PROPOSAL_CHOSEN"
    assert values.format_outcome("established", None, "TS_UNACCEPTABLE") == (
        "established, no CHILD_SA: TS_UNACCEPTABLE"
    )


def test_counted_and_named():
    assert values.format_counts({"messages": 1, "frames": 2, "bytes": 3000}) == "1 message, 2 frames, 3,000 bytes"
    assert values.format_input_name("-") == "standard input"
    assert values.format_input_name("a\x1b.pcap") == "a\\x1b.pcap"


def test_paths_are_shown_without_their_common_folder():
    assert values.strip_common_folder(["a/b/x.pcap", "a/c/y.pcap"]) == {
        "a/b/x.pcap": "b/x.pcap",
        "a/c/y.pcap": "c/y.pcap",
    }
    assert values.strip_common_folder(["/a/x", "x"]) == {"/a/x": "/a/x", "x": "x"}
    assert values.strip_common_folder(["-"]) == {"-": "-"}


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=cmd|'C calc'!A0.pcap", "'=cmd|'C calc'!A0.pcap"),
        ("+1", "'+1"),
        ("-1+2", "'-1+2"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("a=b.pcap", "a=b.pcap"),
        ("-", "-"),  # standard input
        ("", ""),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\u202egpj.pcap", "\\u202egpj.pcap"),
        ("\t=1", "\\t=1"),
        ("größe.pcap", "größe.pcap"),
    ],
)
def test_cells_are_no_formulas_and_printable(text, cell):
    assert values.escape_cell(text) == cell
