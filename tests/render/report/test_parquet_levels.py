"""Levels of nested columns, as pyarrow reads them back, and those of the example in "Dremel" (Melnik et al., 2010)."""

from io import BytesIO

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ikeanalyze import core
from ikeanalyze.analysis.schema import convert_type
from ikeanalyze.analysis.tables.column_types import TEXT, UINT8, UINT32, ListType, StructType
from ikeanalyze.analysis.tables.columns import FlatListColumn, StructColumn, TextColumn, make_column
from ikeanalyze.render.report.parquet_levels import repeat_leaf, split_column

TEXTS = ListType(TEXT)
LINKS = ListType(StructType({"code": TEXT, "country": TEXT}))
NESTED = ListType(StructType({"a": TEXT, "b": ListType(UINT32)}))
NUMBERS = st.none() | st.lists(st.none() | st.integers(0, 3), max_size=3)
ITEMS = st.fixed_dictionaries({"a": st.none() | st.sampled_from("xyz"), "b": NUMBERS})
LISTS = st.none() | st.lists(ITEMS, max_size=3)


def split(lists, kind):
    return split_column(make_column(lists, kind), kind)


def levels(leaf):
    return leaf.definition.tolist(), leaf.repetition.tolist(), [leaf.values[place] for place in leaf.place]


def test_a_null_an_empty_list_and_a_null_element_have_levels_of_their_own():
    (leaf,) = split([None, [], [None], ["a", "b"]], TEXTS)
    assert levels(leaf) == ([0, 1, 2, 3, 3], [0, 0, 0, 0, 1], ["a", "b"])


def test_lists_in_structures_in_lists():
    """Figure 2 of the paper: the names of document r1 have two languages, none, and one."""
    names = [
        {"url": "http://A", "codes": ["en-us", "en"]},
        {"url": "http://B", "codes": []},
        {"url": None, "codes": ["en-gb"]},
    ]
    url, codes = split([names], ListType(StructType({"url": TEXT, "codes": TEXTS})))
    assert url.repetition.tolist() == [0, 1, 1]
    assert levels(codes)[1:] == ([0, 2, 1, 1], ["en-us", "en", "en-gb"])
    # five optional and repeated parts above a code exist, and the code itself
    assert codes.definition.tolist() == [6, 6, 4, 6]
    assert levels(url) == ([4, 4, 3], [0, 1, 1], ["http://A", "http://B"])


def test_rows_share_lists():
    (leaf,) = split([["a", "b"], [], None], TEXTS)
    assert levels(repeat_leaf(leaf, np.array([2, 0, 0, 1]))) == (
        [0, 3, 3, 3, 3, 1],
        [0, 0, 1, 0, 1, 0],
        ["a", "b", "a", "b"],
    )


@pytest.mark.skipif(core.compiled is None, reason="the core is not built")
@settings(max_examples=100, deadline=None)
@given(st.lists(LISTS, max_size=6), st.data())
def test_the_core_repeats_lists_as_python_does(lists, data):
    places = st.lists(st.integers(0, len(lists) - 1), max_size=20) if lists else st.just([])
    place = np.array(data.draw(places), np.int64)
    for leaf in split(lists, NESTED):
        ours = repeat_leaf(leaf, place)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(core, "compiled", None)
            theirs = repeat_leaf(leaf, place)
        assert levels(ours) == levels(theirs)


@pytest.mark.skipif(core.compiled is None, reason="the core is not built")
def test_places_outside_of_the_lists_are_errors():
    levels = np.zeros(2, np.uint8)
    for place in (2, -1):
        with pytest.raises(ValueError, match="outside"):
            core.compiled.repeat_levels(levels, levels, True, np.array([place]))


@pytest.mark.parametrize("lists", [[], [[]], [None], [None, []]])
def test_lists_without_values(lists):
    for leaf in split(lists, LINKS):
        leaf = repeat_leaf(leaf, np.arange(len(lists)))
        assert levels(leaf) == ([0 if value is None else 1 for value in lists], [0] * len(lists), [])


def test_structures_have_the_levels_of_lists_of_python():
    lengths = np.array([2, 0, -1, 1])
    elements = StructColumn({name: TextColumn(["c", "d"], np.array([0, 1, 1])) for name in ("code", "country")})
    given = [[{"code": "c", "country": "c"}, {"code": "d", "country": "d"}], [], None, [{"code": "d", "country": "d"}]]
    for leaf, expected in zip(split_column(FlatListColumn(elements, lengths), LINKS), split(given, LINKS), strict=True):
        assert levels(leaf) == levels(expected)


def test_leaves_are_those_of_a_file():
    """polars writes a leaf for each of them, in this order."""
    import pyarrow.parquet as pq

    kind = ListType(StructType({"a": TEXT, "b": ListType(UINT32), "c": UINT8}))
    lists = [[{"a": "1", "b": [2, 3], "c": 4}], None]
    content = BytesIO()
    pl.Series("x", lists, dtype=convert_type(kind)).to_frame().write_parquet(content)
    schema = pq.ParquetFile(content).schema
    leaves = split(lists, kind)
    assert len(leaves) == len(schema)
    for index, leaf in enumerate(leaves):
        column = schema.column(index)
        assert (leaf.definition.max(), leaf.repetition.max()) == (
            column.max_definition_level,
            column.max_repetition_level if leaf.repetition.any() else 0,
        )
