"""Describes the lines of a log that patterns match, as `find_log_lines` of the compiled core does.

A log has so many that this is done in columns.
"""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from ikeanalyze.keys.charon.dumps import find_line_ends, read_dumps
from ikeanalyze.keys.text_blocks import MAX_LINE_BYTES

if TYPE_CHECKING:
    from ikeanalyze._core import FoundLine

#: Groups of `LogMessageReader.text_pattern`.
_LABEL, _SIZE, _MESSAGE = 1, 2, 3
_NEWLINE: Final = ord("\n")


def describe_matches(
    block: bytes, start: int, matches: Sequence[re.Match[bytes]], labels: Sequence[bytes]
) -> "Iterator[FoundLine]":
    """Yield the lines and whole dumps at the matches from `start` on, where a line begins.

    Args:
        block: lines of a log.
        start: offset in it.
        matches: in their order in the block; those of `LogMessageReader.text_pattern` have its groups.
        labels: the labels of the dumps.
    """
    if not matches:
        return
    index = {label: number for number, label in enumerate(labels)}
    ends = find_line_ends(block)
    at = np.array([match.start() for match in matches], np.int64)
    at += np.frombuffer(block, np.uint8)[at] == _NEWLINE  # a pattern of lines matches the newline before
    line = np.searchsorted(ends, at)  # number of the line in the block
    bounds = np.concatenate([[0], ends + 1, [len(block)]])
    begin, end = bounds[line], bounds[line + 1]
    groups = [match.lastindex for match in matches]
    labelled = [match for match, group in zip(matches, groups, strict=True) if group == _SIZE]
    text = np.array([match.start(_LABEL) for match in labelled], np.int64)
    size = np.array([int(match[_SIZE]) for match in labelled], np.int64)
    is_labelled = np.array([group == _SIZE for group in groups], np.bool_)
    dumps = read_dumps(block, ends, begin[is_labelled], text, end[is_labelled], size)
    each_dump = zip(text.tolist(), dumps.begin, dumps.size, dumps.indented, dumps.stop, strict=True)
    columns = (begin, end, line - np.searchsorted(ends, start))
    position = start
    for match, group, begins, stops, number in zip(
        matches, groups, *(column.tolist() for column in columns), strict=True
    ):
        if group == _SIZE:
            label, low, count, indented, after = next(each_dump)
            if begins >= position and after >= 0:
                position = after
                dump = index[match[_LABEL]], dumps.octets[low : low + count], indented if count else None
                yield begins, label, position, number, False, dump
                continue
        if begins >= position:  # not in a dump, nor matched twice
            position = stops
            is_message = group == _MESSAGE and stops - begins <= MAX_LINE_BYTES
            yield begins, match.start(_MESSAGE) if is_message else begins, stops, number, is_message, None
