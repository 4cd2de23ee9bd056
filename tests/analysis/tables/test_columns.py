"""Columns of tables as values of Python."""

import polars as pl
import pytest

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.analysis.tables.columns import list_values
from tests.paths import CAPTURES

#: Captures that together have values of every kind in the handshakes table.
READ = {
    "clear": ("faults/mtu-black-hole.pcapng", []),
    "decrypted": ("pq-mlkem768-psk.pcap", ["pq-mlkem768-psk.keys.json"]),
    "RADIUS": ("eap-md5-radius.pcapng", []),
}


@pytest.mark.parametrize("capture", READ)
def test_the_values_of_a_column_are_those_of_the_table(capture):
    name, keys = READ[capture]
    listed = {}

    def list_columns(table, columns):
        if columns.order is None:
            values = {name: list_values(value, columns.layout[name]) for name, value in columns.columns.items()}
            listed[table] = values
        return False

    keys = [CAPTURES / key for key in keys]
    analysis = read_captures(CAPTURES / name, ReadOptions(keys=keys, on_columns=list_columns))
    assert {"frames", "exchanges", "handshakes"} <= set(listed)
    for table, columns in listed.items():
        made = getattr(analysis, table)
        assert len(columns) > 2
        for column, values in columns.items():
            assert pl.Series(values, dtype=made.schema[column]).to_list() == made[column].to_list(), (table, column)
