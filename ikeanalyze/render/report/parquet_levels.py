"""Columns of lists as Parquet stores them: the values of all lists, and levels that say where lists begin and end.

A nested column is a tree of optional lists and structures; each of its leaves is stored by itself. The definition level
of a value says how many of the optional and repeated parts above it exist: the highest level if the value does, a lower
one if it, its list or its structure is null, or its list is empty. The repetition level says which list continues: 0 if
a row begins. See "Nested Encoding" in the README of parquet-format, and Melnik et al., "Dremel", 2010.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from ikeanalyze import core
from ikeanalyze.analysis.tables.polars_columns import Array
from ikeanalyze.capture.arrays import Int64Array, UInt8Array, UInt32Array

#: Definition levels of a row of lists of structures without nulls: of an empty list, and of a field.
_EMPTY, _FIELD = 1, 4


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf of a nested column."""

    definition: UInt8Array  # (levels,)
    repetition: UInt8Array  # (levels,)
    values: pl.Series  # without nulls; (k,)
    place: Int64Array | UInt32Array  # in `values` of each value; (values,)


@dataclass(frozen=True, slots=True)
class _Slots:
    """The levels of a part of the tree, and which of them have an element of the part's series."""

    definition: UInt8Array
    repetition: UInt8Array
    filled: Int64Array  # levels with an element, in order
    depth: int  # lists around the part


def split_lists(lists: pl.Series, place: Array) -> list[Leaf]:
    """The leaves of a column that has one of the `lists` in each row: that at this place. (k,), (n,)"""
    count = len(lists)
    slots = _Slots(np.zeros(count, np.uint8), np.zeros(count, np.uint8), np.arange(count), 0)
    return [_repeat(leaf, place) for leaf in _split(lists, slots)]


def make_struct_levels(length: Int64Array) -> tuple[UInt8Array, UInt8Array]:
    """Definition and repetition levels of each field of lists of structures without nulls, from their lengths. (n,)"""
    levels = np.maximum(length, 1)
    begin = np.cumsum(levels) - levels
    definition = np.full(int(levels.sum()), _FIELD, np.uint8)
    definition[begin[length == 0]] = _EMPTY
    repetition = np.ones(len(definition), np.uint8)
    repetition[begin] = 0
    return definition, repetition


def _split(series: pl.Series, slots: _Slots) -> Iterator[Leaf]:
    """The leaves below a series, which has an element for each filled slot."""
    known = series.is_not_null().to_numpy()
    series = series.filter(pl.Series(known))
    filled = slots.filled[known]
    definition = slots.definition.copy()
    definition[filled] += 1
    slots = _Slots(definition, slots.repetition, filled, slots.depth)
    dtype: Any = series.dtype
    if isinstance(dtype, pl.Struct):
        for field in dtype.fields:
            yield from _split(series.struct.field(field.name), slots)
    elif isinstance(dtype, pl.List):
        yield from _split_list(series, slots)
    else:
        yield Leaf(definition, slots.repetition, series, np.arange(len(series)))


def _split_list(series: pl.Series, slots: _Slots) -> Iterator[Leaf]:
    length = series.list.len().to_numpy().astype(np.int64)
    # an empty list has a level too
    levels = np.ones(len(slots.definition), np.int64)
    levels[slots.filled] = np.maximum(length, 1)
    begin = np.cumsum(levels) - levels
    definition = np.repeat(slots.definition, levels)
    repetition = np.full(len(definition), slots.depth + 1, np.uint8)
    repetition[begin] = slots.repetition
    has_element = np.zeros(len(slots.definition), np.bool_)
    has_element[slots.filled[length > 0]] = True
    filled = np.flatnonzero(np.repeat(has_element, levels))
    definition[filled] += 1
    elements = series.filter(pl.Series(length > 0)).explode()
    yield from _split(elements, _Slots(definition, repetition, filled, slots.depth + 1))


def _repeat(leaf: Leaf, place: Array) -> Leaf:
    """The leaf of the rows that have the list at these places."""
    if core.compiled is not None:
        repeated = core.compiled.repeat_levels(
            leaf.definition, leaf.repetition, len(leaf.values) > 0, np.ascontiguousarray(place, np.int64)
        )
        return Leaf(repeated[0], repeated[1], leaf.values, repeated[2])
    begin = np.flatnonzero(leaf.repetition == 0)
    levels = np.diff(np.append(begin, len(leaf.repetition)))[place]
    chosen = np.repeat(begin[place] - (np.cumsum(levels) - levels), levels) + np.arange(int(levels.sum()))
    definition = leaf.definition[chosen]
    has_value = leaf.definition == leaf.definition.max(initial=0)
    has_value &= len(leaf.values) > 0
    value = np.cumsum(has_value) - 1
    return Leaf(definition, leaf.repetition[chosen], leaf.values, value[chosen[has_value[chosen]]])
