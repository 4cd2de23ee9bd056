"""Columns of lists as Parquet stores them: the values of all lists, and levels that say where lists begin and end.

A nested column is a tree of optional lists and structures; each of its leaves is stored by itself. The definition level
of a value says how many of the optional and repeated parts above it exist: the highest level if the value does, a lower
one if it, its list or its structure is null, or its list is empty. The repetition level says which list continues: 0 if
a row begins. See "Nested Encoding" in the README of parquet-format, and Melnik et al., "Dremel", 2010.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from ikeanalyze import core
from ikeanalyze.analysis.tables.column_types import ColumnType, ListType, StructType
from ikeanalyze.analysis.tables.columns import Array, FlatListColumn, StructColumn, TextColumn
from ikeanalyze.capture.arrays import Int64Array, UInt8Array


class Leaf(Struct, frozen=True):
    """A leaf of a nested column."""

    definition: UInt8Array  # (levels,)
    repetition: UInt8Array  # (levels,)
    values: Array | Sequence[str | None]  # numbers or texts; (k,)
    place: Array  # in `values` of each value that is not null; (values,)
    kind: ColumnType


class _Slots(Struct, frozen=True):
    """The levels of a part of the tree, and which of them have an element of the part's column."""

    definition: UInt8Array
    repetition: UInt8Array
    filled: Int64Array  # levels with an element, in order
    depth: int  # lists around the part

    def define(self, filled: Int64Array) -> "_Slots":
        """The same one level deeper, where these elements are not null."""
        definition = self.definition.copy()
        definition[filled] += 1
        return _Slots(definition, self.repetition, filled, self.depth)


def split_column(column: FlatListColumn, kind: ColumnType) -> list[Leaf]:
    """The leaves of a column of lists, in the order of Parquet."""
    count = len(column)
    slots = _Slots(np.zeros(count, np.uint8), np.zeros(count, np.uint8), np.arange(count), 0)
    return list(_split(column, kind, slots))


def _split(column: Any, kind: ColumnType, slots: _Slots) -> Iterator[Leaf]:
    """The leaves below a column, which has an element for each filled slot."""
    if isinstance(column, FlatListColumn):
        assert isinstance(kind, ListType)
        known = column.length >= 0
        yield from _split_list(column.elements, column.length[known], kind, slots.define(slots.filled[known]))
    elif isinstance(column, StructColumn):
        assert isinstance(kind, StructType)
        slots = slots.define(slots.filled)
        for name, field in kind.fields.items():
            yield from _split(column.fields[name], field, slots)
    elif isinstance(column, TextColumn):
        known = np.array([text is not None for text in column.texts], np.bool_)[column.place]
        slots = slots.define(slots.filled[known])
        yield Leaf(slots.definition, slots.repetition, column.texts, column.place[known], kind)
    else:
        values, known = column if isinstance(column, tuple) else (column, np.ones(len(column), np.bool_))
        slots = slots.define(slots.filled[known])
        yield Leaf(slots.definition, slots.repetition, values, np.flatnonzero(known), kind)


def _split_list(elements: Any, length: Int64Array, kind: ListType, slots: _Slots) -> Iterator[Leaf]:
    """The leaves below lists of these lengths, of which there is one for each filled slot."""
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
    yield from _split(elements, kind.inner, _Slots(definition, repetition, filled, slots.depth + 1))


def repeat_leaf(leaf: Leaf, place: Array) -> Leaf:
    """The leaf of rows that have the list at these places. (n,)"""
    if core.compiled is not None:
        definition, repetition, value = core.compiled.repeat_levels(
            leaf.definition, leaf.repetition, len(leaf.place) > 0, np.ascontiguousarray(place, np.int64)
        )
        return Leaf(definition, repetition, leaf.values, leaf.place[value], leaf.kind)
    begin = np.flatnonzero(leaf.repetition == 0)
    levels = np.diff(np.append(begin, len(leaf.repetition)))[place]
    chosen = np.repeat(begin[place] - (np.cumsum(levels) - levels), levels) + np.arange(int(levels.sum()))
    definition = leaf.definition[chosen]
    has_value = leaf.definition == leaf.definition.max(initial=0)
    has_value &= len(leaf.place) > 0
    value = np.cumsum(has_value) - 1
    values = leaf.place[value[chosen[has_value[chosen]]]]
    return Leaf(definition, leaf.repetition[chosen], leaf.values, values, leaf.kind)
