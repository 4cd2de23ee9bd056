"""Keep the tunnels of a capture apart: equal addresses and SPIs in two tunnels are different hosts and IKE SAs.

Many tunnels have an identifier for each direction: MPLS labels, the endpoint identifiers of GTP-U, session numbers of
L2TP, VNIs where a network is routed. Then the requests of an IKE SA are in one tunnel and the responses in another, or
outside tunnels. So among the frames with one initiator SPI between two addresses:

- a tunnel with frames of both directions stands alone;
- tunnels with frames of one direction belong together, if there are both kinds.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ikeanalyze.analysis.grouping import find_distinct
from ikeanalyze.capture.arrays import UInt32Array, UInt64Array
from ikeanalyze.capture.buffers import Columns


def separate_tunnels(columns: Columns) -> UInt32Array | None:
    """A number for each frame that differs if its tunnel is another one (see above); None: no tunnels. (n,)"""
    tunnel = columns["tunnel"]
    if not tunnel.any():
        return None
    source, destination = columns["source"], columns["destination"]
    pair = _combine(np.minimum(source, destination), np.maximum(source, destination))
    conversation = _combine(pair, columns["spi_i"])
    flow = _combine(conversation, tunnel).astype(np.int64)  # the frames of a conversation in one tunnel
    flows = int(flow.max()) + 1
    tunnel_of, conversation_of = np.zeros(flows, np.uint32), np.zeros(flows, np.int64)
    tunnel_of[flow], conversation_of[flow] = tunnel, conversation
    forth = np.bincount(flow[source <= destination], minlength=flows) > 0
    back = np.bincount(flow[source > destination], minlength=flows) > 0
    only_forth, only_back = forth & ~back, back & ~forth
    joined = (only_forth | only_back) & np.isin(
        conversation_of, np.intersect1d(conversation_of[only_forth], conversation_of[only_back])
    )
    lowest = np.full(int(conversation_of.max()) + 1, np.iinfo(np.uint32).max, np.uint32)
    np.minimum.at(lowest, conversation_of[joined], tunnel_of[joined])
    tunnel_of[joined] = lowest[conversation_of[joined]]
    result: UInt32Array = tunnel_of[flow]
    return result


def _combine(first: UInt64Array, second: UInt64Array) -> UInt64Array:
    """Numbers that are equal where both values are equal. (n,)"""
    both = find_distinct(first.astype(np.uint64))[1].astype(np.uint64) << np.uint64(32)
    return find_distinct(both | find_distinct(second.astype(np.uint64))[1])[1].astype(np.uint64)


def name_tunnels(columns: Columns, handshake: npt.NDArray[np.int32], names: Sequence[str]) -> dict[int, str]:
    """The tunnels of the frames of each handshake, in order, separated by commas, without frames outside tunnels.

    `handshake` is that of each frame, -1 for none.
    """
    tunnel = columns["tunnel"]
    if not names:
        return {}
    result: dict[int, list[str]] = {}
    rows = np.flatnonzero((tunnel > 0) & (handshake >= 0))
    both = handshake[rows].astype(np.uint64) << np.uint64(32) | tunnel[rows]
    _, first = np.unique(both, return_index=True)
    for row in rows[np.sort(first)].tolist():
        result.setdefault(int(handshake[row]), []).append(names[int(tunnel[row]) - 1])
    return {number: ", ".join(tunnels) for number, tunnels in result.items()}
