"""Assigns the ids of handshakes, messages and exchanges: across all captures of an analysis, or per capture."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from ikeanalyze.analysis.grouping import order_times
from ikeanalyze.analysis.messages.datagrams import Datagrams
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.analysis.tables.columns import TextColumn
from ikeanalyze.capture.arrays import Int32Array, Int64Array, UInt32Array
from ikeanalyze.capture.decode.ip import get_capture_numbers


class FirstRowIds(Struct, frozen=True):
    """The first id of each kind."""

    handshake: int = 1
    message: int = 0
    exchange: int = 0


FROM_THE_START: Final = FirstRowIds()


class RowNumbering(Struct, frozen=True):
    """How the rows of captures that are analysed together are numbered."""

    paths: Sequence[str]  # of the captures
    first: FirstRowIds = FROM_THE_START
    own: bool = False  # ids start again in each capture

    def get_ids(self, captures: Int64Array, first: int) -> Int64Array:
        """The ids of rows, from the ascending capture numbers of the rows; `first` is the first id. (n,)"""
        ids = np.arange(first, first + len(captures))
        if self.own and len(self.paths) > 1:
            ids -= np.searchsorted(captures, captures)
        return ids

    def number_handshakes(self, state: AnalysisState) -> Int64Array:
        """The ids of the handshakes. (handshakes,)"""
        return self.get_ids(state.capture, self.first.handshake)

    def number_exchanges(self, state: AnalysisState) -> Int64Array:
        """The ids of the exchanges. (exchanges,)"""
        return self.get_ids(state.capture[state.exchanges.handshake], self.first.exchange)

    def number_messages(self, state: AnalysisState, radius: Datagrams) -> "MessageRowIds":
        """The ids of the messages and of the RADIUS datagrams."""
        first_ns = state.messages.first_ns
        if len(radius):
            first_ns = np.concatenate([first_ns, radius.first_ns])
        if len(self.paths) == 1:
            order = order_times(first_ns)
            captures = np.broadcast_to(np.int64(0), len(order))  # takes no memory
        else:
            captures = state.capture[state.messages.handshake]
            if len(radius):
                captures = np.concatenate([captures, get_capture_numbers(radius.source)])
            order = np.lexsort((first_ns, captures)).astype(np.int32)
            captures = captures[order]
        of_row = np.empty(len(order), np.uint32)  # as in the tables
        of_row[order] = self.get_ids(captures, self.first.message)
        return MessageRowIds(order, of_row, captures)

    def select_paths(self, captures: Int64Array) -> str | TextColumn:
        """The paths of these captures, or that of the only one. (n,)"""
        if len(self.paths) == 1:
            return self.paths[0]
        return TextColumn(self.paths, captures)


class MessageRowIds(Struct, frozen=True):
    """The ids of the messages of IKE, HIP and RADIUS together."""

    order: Int32Array  # row of each message (RADIUS rows follow the others), by capture and time
    of_row: UInt32Array  # id of each row
    capture: Int64Array  # of each message in `order`


class RowIds(Struct, frozen=True):
    """The ids of all rows."""

    numbering: RowNumbering
    capture: Int64Array  # of each row of Handshakes
    handshake: Int64Array
    exchange: Int64Array
    message: MessageRowIds
