"""The data dictionary: a meaning for each column."""

import polars as pl
import pytest

from ikeanalyze.analysis import schema
from ikeanalyze.papers import PaperError
from ikeanalyze.papers.dictionary import describe_columns, get_schema_meanings


@pytest.mark.parametrize(("table", "columns"), [("handshakes", schema.HANDSHAKES), ("exchanges", schema.EXCHANGES)])
def test_each_column_of_the_schema_has_a_meaning(table, columns):
    meanings = get_schema_meanings(table)
    assert set(columns) <= set(meanings)
    assert all(meanings.values())


def test_a_column_has_the_meaning_that_the_analysis_declares_or_its_name():
    assert (
        get_schema_meanings("handshakes")["blowup"] == "bytes sent / bytes that one transmission of each message needs"
    )
    assert get_schema_meanings("exchanges")["epoch"] == "null: no keys were given"
    assert get_schema_meanings("handshakes")["initiator_address"] == "initiator address"


def test_a_table_of_structures_has_the_meanings_of_their_fields():
    exchange = {name: get_schema_meanings(name)["exchange"] for name in ("diagnosis", "key_exchanges")}
    assert exchange == {"diagnosis": "the IKE message that it concerns: exchange type", "key_exchanges": "id"}
    assert get_schema_meanings("certificates")["side"] == "who sent it"


def test_known_and_different_values_are_counted():
    table = pl.DataFrame({"blowup": [1.0, None, 1.0], "link_mtu": [576, 1500, 1500]})
    entries = list(describe_columns("handshakes", table, {"link_*": "label"}))
    assert [(each.name, each.known, each.distinct, each.meaning) for each in entries[1:]] == [
        ("link_mtu", 3, 2, "label")
    ]
    assert (entries[0].known, entries[0].distinct) == (2, 1)


def test_the_meaning_for_a_table_comes_before_the_general_one():
    table = pl.DataFrame({"bytes": [1]})
    meanings = {"bytes": "in general", "phases.bytes": "of the phase"}
    assert next(describe_columns("phases", table, meanings)).meaning == "of the phase"
    assert next(describe_columns("others", table, meanings)).meaning == "in general"


def test_a_column_without_meaning_is_an_error():
    with pytest.raises(PaperError, match=r"columns: phases\.colour has no meaning"):
        list(describe_columns("phases", pl.DataFrame({"colour": ["red"]}), {}))
