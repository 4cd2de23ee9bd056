"""Levels of nested columns, as pyarrow reads them back, and those of the example in "Dremel" (Melnik et al., 2010)."""

from io import BytesIO

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ikeanalyze import core
from ikeanalyze.render.report.parquet_levels import make_struct_levels, split_lists

LINKS = pl.List(pl.Struct({"code": pl.String, "country": pl.String}))
NESTED = pl.List(pl.Struct({"a": pl.String, "b": pl.List(pl.UInt32)}))
NUMBERS = st.none() | st.lists(st.none() | st.integers(0, 3), max_size=3)
ITEMS = st.none() | st.fixed_dictionaries({"a": st.none() | st.sampled_from("xyz"), "b": NUMBERS})
LISTS = st.none() | st.lists(ITEMS, max_size=3)


def levels(leaf):
    return leaf.definition.tolist(), leaf.repetition.tolist(), leaf.values.gather(leaf.place).to_list()


def test_a_null_an_empty_list_and_a_null_element_have_levels_of_their_own():
    (leaf,) = split_lists(pl.Series([None, [], [None], ["a", "b"]], dtype=pl.List(pl.String)), np.arange(4))
    assert levels(leaf) == ([0, 1, 2, 3, 3], [0, 0, 0, 0, 1], ["a", "b"])


def test_lists_in_structures_in_lists():
    """Figure 2 of the paper: the names of document r1 have two languages, none, and one."""
    names = [
        {"url": "http://A", "codes": ["en-us", "en"]},
        {"url": "http://B", "codes": []},
        {"url": None, "codes": ["en-gb"]},
    ]
    dtype = pl.List(pl.Struct({"url": pl.String, "codes": pl.List(pl.String)}))
    url, codes = split_lists(pl.Series([names], dtype=dtype), np.arange(1))
    assert url.repetition.tolist() == [0, 1, 1]
    assert levels(codes)[1:] == ([0, 2, 1, 1], ["en-us", "en", "en-gb"])
    # five optional and repeated parts above a code exist, and the code itself
    assert codes.definition.tolist() == [6, 6, 4, 6]
    assert levels(url) == ([4, 4, 3], [0, 1, 1], ["http://A", "http://B"])


def test_rows_share_lists():
    lists = pl.Series([["a", "b"], [], None], dtype=pl.List(pl.String))
    (leaf,) = split_lists(lists, np.array([2, 0, 0, 1]))
    assert levels(leaf) == ([0, 3, 3, 3, 3, 1], [0, 0, 1, 0, 1, 0], ["a", "b", "a", "b"])


@pytest.mark.skipif(core.compiled is None, reason="the core is not built")
@settings(max_examples=100, deadline=None)
@given(st.lists(LISTS, max_size=6), st.data())
def test_the_core_repeats_lists_as_python_does(lists, data):
    series = pl.Series(lists, dtype=NESTED)
    places = st.lists(st.integers(0, len(lists) - 1), max_size=20) if lists else st.just([])
    place = np.array(data.draw(places), np.int64)
    ours = split_lists(series, place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core, "compiled", None)
        theirs = split_lists(series, place)
    assert [levels(leaf) for leaf in ours] == [levels(leaf) for leaf in theirs]


@pytest.mark.skipif(core.compiled is None, reason="the core is not built")
def test_places_outside_of_the_lists_are_errors():
    levels = np.zeros(2, np.uint8)
    for place in (2, -1):
        with pytest.raises(ValueError, match="outside"):
            core.compiled.repeat_levels(levels, levels, True, np.array([place]))


@pytest.mark.parametrize("lists", [[], [[]], [None], [None, []]])
def test_lists_without_values(lists):
    series = pl.Series(lists, dtype=LINKS)
    for leaf in split_lists(series, np.arange(len(series))):
        assert levels(leaf) == ([0 if value is None else 1 for value in lists], [0] * len(lists), [])


def test_structures_have_the_levels_of_lists_that_are_split():
    lengths = [2, 0, 1]
    series = pl.Series([[{"code": "c", "country": "d"}] * length for length in lengths], dtype=LINKS)
    for leaf in split_lists(series, np.arange(3)):
        definition, repetition = make_struct_levels(np.array(lengths))
        assert levels(leaf)[:2] == (definition.tolist(), repetition.tolist())


def test_leaves_are_those_of_a_file():
    """polars writes a leaf for each of them, in this order."""
    import pyarrow.parquet as pq

    dtype = pl.List(pl.Struct({"a": pl.String, "b": pl.List(pl.UInt32), "c": pl.UInt8}))
    series = pl.Series("x", [[{"a": "1", "b": [2, 3], "c": 4}], None], dtype=dtype)
    content = BytesIO()
    series.to_frame().write_parquet(content)
    schema = pq.ParquetFile(content).schema
    leaves = split_lists(series, np.arange(2))
    assert len(leaves) == len(schema)
    for index, leaf in enumerate(leaves):
        column = schema.column(index)
        assert (leaf.definition.max(), leaf.repetition.max()) == (
            column.max_definition_level,
            column.max_repetition_level if leaf.repetition.any() else 0,
        )
