import polars as pl
import pytest

from ikeanalyze.analysis.tables.filter_language import NUMBERS, TEXTS, parse_filter
from ikeanalyze.analysis.tables.search_table import build_filter_expression, build_search_table
from tests.render.analysis_examples import analysis

TABLE = build_search_table(analysis(range(1, 9)).handshakes)


def ids(text: str) -> list[int]:
    return matching(TABLE, text)["handshake"].to_list()


def matching(table: pl.DataFrame, text: str) -> pl.DataFrame:
    return table.filter(build_filter_expression(parse_filter(text)))


def where(**wanted) -> list[int]:
    """Counted in the table that the tests made by hand, value by value."""
    rows = analysis(range(1, 9)).handshakes.to_dicts()
    return [row["handshake"] for row in rows if all(row[name] == value for name, value in wanted.items())]


def test_an_empty_filter_selects_all():
    assert ids("") == ids("  ") == list(range(1, 9))


@pytest.mark.parametrize("outcome", ["established", "failed", "unanswered", "cut", "completed"])
def test_a_value_of_a_column_is_found_in_any_case(outcome):
    assert ids(f"outcome:{outcome}") == ids(f"OUTCOME:{outcome.upper()}") == where(outcome=outcome)
    rest = [number for number in range(1, 9) if number not in where(outcome=outcome)]
    assert ids(f"!outcome:{outcome}") == rest


def test_plain_text_matches_any_column():
    rows = analysis(range(1, 9)).handshakes.to_dicts()
    for row in rows:
        assert row["handshake"] in ids(row["spi_i"])
        assert row["handshake"] in ids(f"spi:{row['spi_i'][:8]}")
        assert row["handshake"] in ids(f"{row['initiator_address']} {row['responder_address']}")
    with_aaa = [row["handshake"] for row in rows if row["aaa_address"] is not None]
    assert ids("aaa:198.51.100.9") == ids("address:198.51.100.9") == with_aaa


def test_numbers_are_compared_by_size():
    rows = analysis(range(1, 9)).handshakes.to_dicts()
    sent = {row["handshake"]: row["initiator_bytes"] + row["responder_bytes"] for row in rows}
    middle = sorted(sent.values())[4]
    assert ids(f"bytes>{middle}") == [number for number, size in sent.items() if size > middle]
    assert ids(f"bytes<={middle}") == [number for number, size in sent.items() if size <= middle]
    assert ids(f"bytes={middle:,}") == [number for number, size in sent.items() if size == middle]
    assert ids("setup<0") == []
    slow = [row["handshake"] for row in rows if row["setup_ns"] is not None and row["setup_ns"] > 12_000_000]
    assert ids("setup>12") == slow


def test_a_time_is_found_as_it_is_shown():
    """Set-up times of 12.75, 13.0784 and 967 ms: as the list rounds them, or as somebody does."""
    times = pl.Series("setup", [12_750_000, 13_078_400, None, 967_000_000, *[None] * 4], pl.Int64)
    table = TABLE.with_columns(times)

    def found(text):
        return matching(table, text)["handshake"].to_list()

    assert found("setup=13.078") == found("setup=13.0784") == found("setup=13.08") == found("setup=13.1") == [2]
    assert found("setup=13.079") == found("setup=13.07") == []
    assert found("setup=967") == found("setup=967.000") == [4]
    assert found("!setup=967") == [1, 2, 3, 5, 6, 7, 8]
    rows = analysis(range(1, 9)).handshakes.to_dicts()
    sent = rows[0]["initiator_bytes"] + rows[0]["responder_bytes"]
    assert ids(f"bytes={sent}.4") == []  # bytes are shown as they are


def test_double_negation_is_the_condition():
    assert ids("!!outcome:cut") == ids("outcome:cut") != ids("!!!outcome:cut") == ids("!outcome:cut")
    assert ids("!" * 5_000 + "outcome:cut") == ids("outcome:cut")


@pytest.mark.parametrize("text", ["2001:db8::1", "[a-z", "a\\b", "%", '"', "outcome:(", "x" * 5000, "é:>"])
def test_any_text_is_searched_for_literally(text):
    assert ids(text) == []


def test_an_address_of_ipv6_is_no_column():
    table = TABLE.with_columns(pl.lit("fd00:1::1 established").alias("search"))
    assert matching(table, "fd00:1::1").height == 8


def test_all_names_are_those_of_columns():
    for name in TEXTS:
        assert isinstance(ids(f"{name}:x"), list)
    for name in NUMBERS:
        assert isinstance(ids(f"{name}>1"), list)


def test_blow_up_is_compared_as_it_is_shown():
    table = TABLE.with_columns(pl.Series("blowup", [1.0, 1.93349, None, 3.5, *[None] * 4], pl.Float64))
    assert matching(table, "blowup>1.5")["handshake"].to_list() == [2, 4]
    assert matching(table, "blowup=1.933")["handshake"].to_list() == [2]
    assert matching(table, "blowup=1.934").is_empty()


def test_codes_of_the_diagnosis_are_a_column():
    assert ids("diagnosis:responder-silent") == ids("udp-4500-blocked") == where(outcome="unanswered")
