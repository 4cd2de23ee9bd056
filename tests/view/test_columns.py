import polars as pl

from ikeanalyze.view.columns import build_list_table, compute_widths, make_list_columns, sort_rows
from tests.render.analysis_examples import analysis

HANDSHAKES = analysis(range(1, 9)).handshakes


def test_a_row_says_what_the_table_says():
    table = build_list_table(HANDSHAKES)
    for row, given in zip(table.iter_rows(named=True), HANDSHAKES.to_dicts(), strict=True):
        cells = {column.name: column.text(row) for column in make_list_columns(table)}
        assert cells["#"] == str(given["handshake"])
        assert cells["outcome"] == given["outcome"]
        assert cells["msgs"] == f"{given['initiator_messages'] + given['responder_messages']:,}"
        setup = given["setup_ns"]
        assert cells["set-up, ms"] == ("-" if setup is None else f"{setup / 1e6:,.3f}")
        assert cells["reason"] == (given["reason"] or "")


def test_no_cell_is_wider_than_its_column():
    table = build_list_table(HANDSHAKES)
    columns = make_list_columns(table)
    for column, width in zip(columns, compute_widths(columns, table), strict=True):
        assert max(len(column.text(row)) for row in table.iter_rows(named=True)) <= width
        assert len(column.name) <= width


def test_times_have_a_date_if_there_are_several_days():
    list_table = build_list_table(HANDSHAKES)
    day = pl.col("start_ns") + 86_400_000_000_000 * (pl.col("handshake").cast(pl.Int64) - 1)
    several = build_list_table(HANDSHAKES.with_columns(day.alias("start_ns")))
    texts = [make_list_columns(table)[1].text(table.row(1, named=True)) for table in (list_table, several)]
    assert texts[0] == texts[1].partition(" ")[2]
    assert texts[1].startswith("2025-11-25 ")


def test_addresses_are_sorted_as_numbers_and_the_unknown_is_last():
    addresses = ["10.0.0.10", "10.0.0.9", None, "2001:db8::1", "9.1.1.1", "10.0.0.9", "::1", None]
    table = build_list_table(HANDSHAKES.with_columns(pl.Series("initiator_address", addresses)))
    assert sort_rows(table, "initiator", falling=False).to_list()[:6] == [4, 1, 5, 0, 6, 3]
    assert sort_rows(table, "initiator", falling=True).to_list()[:2] == [3, 6]
    assert set(sort_rows(table, "initiator", falling=True).to_list()[-2:]) == {2, 7}


def test_an_empty_table_has_its_columns():
    table = build_list_table(HANDSHAKES.clear())
    assert min(compute_widths(make_list_columns(table), table)) > 0
    assert sort_rows(table, "initiator", falling=False).to_list() == []
