"""The definition of the tables: units, types, and enums that agree with the code."""

from typing import get_args

import polars as pl

from ikeanalyze.analysis import schema
from ikeanalyze.analysis.exchanges.capture_point import INITIATOR, RESPONDER, UNKNOWN_VANTAGE
from ikeanalyze.analysis.handshakes.outcome import Outcome, OutcomeName
from ikeanalyze.capture.decode.classify import Encapsulation, Protocol

TABLES = (schema.FRAMES, schema.MESSAGES, schema.EXCHANGES, schema.HANDSHAKES)


def test_numbers_in_the_code_are_the_enums_places():
    assert [name.upper().replace("-", "_") for name in schema.OUTCOMES.categories] == [item.name for item in Outcome]
    assert tuple(schema.OUTCOMES.categories) == get_args(OutcomeName)
    assert [name.upper() for name in schema.PROTOCOLS.categories] == [item.name for item in Protocol]
    names = [name.upper().replace(" ", "_") for name in schema.ENCAPSULATIONS.categories]
    assert names == [item.name for item in Encapsulation]
    vantages = schema.VANTAGES.categories.to_list()
    assert [vantages[place] for place in (INITIATOR, RESPONDER, UNKNOWN_VANTAGE)] == vantages


def test_every_table_names_its_capture_first():
    for table in TABLES:
        assert next(iter(table)) == "capture"


def test_times_are_integers():
    for table in TABLES:
        for name, dtype in table.items():
            if name.endswith("_ns"):
                assert dtype == pl.Int64


def test_ids_have_one_type_everywhere():
    for table in TABLES:
        for name in ("handshake", "message", "exchange"):
            if name in table:
                assert table[name] == pl.UInt32
