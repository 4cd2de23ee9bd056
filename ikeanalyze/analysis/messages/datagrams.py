"""Group frames into datagrams: one row per transmission of an IKE, RADIUS or HIP message, or of one of its fragments.

A datagram is one UDP datagram, whether IP fragmented it or not, or one message in a TCP stream. The rules of
retransmission are defined on datagrams; almost every datagram is one frame.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from ikeanalyze.analysis.grouping import RowColumns, find_group_starts
from ikeanalyze.analysis.messages.capture_facts import WHOLE_CAPTURE, CaptureFacts, SharedFact
from ikeanalyze.analysis.messages.tunnels import separate_tunnels
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt8Array, UInt32Array, UInt64Array
from ikeanalyze.capture.buffers import Columns
from ikeanalyze.capture.decode.classify import Encapsulation, Protocol
from ikeanalyze.capture.decode.ip import get_capture_numbers
from ikeanalyze.wire.header import FLAG_INITIATOR, FLAG_RESPONSE


class Datagrams(RowColumns, frozen=True):
    """Columns with one row per datagram, in order of capture and time."""

    datagram: npt.NDArray[np.uint32]  # as in the frames
    first_ns: Int64Array  # of its first frame
    last_ns: Int64Array  # of its last frame
    number: npt.NDArray[np.uint32]  # of its first frame
    frames: Int64Array
    bytes: UInt32Array | Int64Array  # of all its frames; 32 bits if each datagram is one frame
    resent_bytes: Int64Array  # of frames without new content
    ip_fragments: Int64Array  # frames that are IP fragments
    protocol: UInt8Array
    source: UInt64Array
    source_port: npt.NDArray[np.uint16]
    destination: UInt64Array
    destination_port: npt.NDArray[np.uint16]
    ttl: UInt8Array
    spi_i: UInt64Array
    spi_r: UInt64Array
    next_payload: UInt8Array
    exchange_type: UInt8Array
    flags: UInt8Array
    message_id: npt.NDArray[np.uint32]
    fragment: npt.NDArray[np.uint16]  # 0: not fragmented
    fragments: npt.NDArray[np.uint16]
    digest: UInt64Array
    scope: npt.NDArray[np.uint32]  # 0: in no tunnel; equal only if the tunnels are not kept apart

    @property
    def is_response(self) -> BoolArray:
        """IKEv2's response flag (RFC 7296, 3.1)."""
        return (self.flags & FLAG_RESPONSE).astype(np.bool_)

    @property
    def from_initiator(self) -> BoolArray:
        """IKEv2's flag of the original initiator of the IKE SA (RFC 7296, 3.1)."""
        return (self.flags & FLAG_INITIATOR).astype(np.bool_)

    @property
    def is_ikev1(self) -> BoolArray:
        """Whether the datagram is IKEv1."""
        return np.equal(self.protocol, int(Protocol.IKEV1))


_LONG_AGO: Final = np.iinfo(np.int64).min


def group_datagrams(columns: Columns, duplicate: BoolArray, facts: CaptureFacts = WHOLE_CAPTURE) -> Datagrams:
    """Group the frames of captures into datagrams, without the frames in `duplicate`.

    Frames of one datagram become one row: its time is that of its first frame, its bytes are those of all of them.
    """
    keep = ~duplicate
    if not keep.all():
        columns = {name: column[keep] for name, column in columns.items()}
    scope = separate_tunnels(columns)
    # one value for all rows takes no memory
    columns = {**columns, "scope": np.broadcast_to(np.uint32(0), len(columns["tunnel"])) if scope is None else scope}
    time = columns["time_ns"].astype(np.int64, copy=False)
    count = len(time)
    datagram = columns["datagram"]
    # only IP fragments and TCP segments make a datagram of several frames
    several = bool(columns["ip_fragment"].any() or (columns["encapsulation"] == int(Encapsulation.TCP_4500)).any())
    # decides the order of datagrams of the same time
    several = facts.total(SharedFact.SEVERAL_FRAMES, several=several)["several"] > 0
    first_ns, last_ns = time, time
    size = columns["bytes"]
    frames, nothing = np.broadcast_to(np.int64(1), count), np.broadcast_to(np.int64(0), count)
    fragments = resent = nothing
    if several:
        size = size.astype(np.int64)
        order = np.argsort(datagram, kind="stable")
        start = np.flatnonzero(find_group_starts(datagram[order]))
        first_ns = np.minimum.reduceat(time[order], start)
        # neither fragments that a link duplicated nor TCP segments that were sent again extend the datagram: the first
        # ones delivered its bytes, as far as the capture shows
        last_ns = np.maximum.reduceat(np.where(columns["resent"], _LONG_AGO, time)[order], start)
        last_ns = np.maximum(last_ns, first_ns)
        frames = np.diff(np.append(start, count))
        resent = np.add.reduceat(np.where(columns["resent"][order], size[order], 0), start)
        size = np.add.reduceat(size[order], start)
        fragments = np.add.reduceat(columns["ip_fragment"][order].astype(np.int64), start)
        columns = {name: column[order[start]] for name, column in columns.items()}
    datagrams = Datagrams(
        first_ns=first_ns,
        last_ns=last_ns,
        frames=frames,
        bytes=size,
        resent_bytes=resent,
        ip_fragments=fragments,
        **{name: columns[name] for name in Datagrams.__struct_fields__ if name in columns and name != "bytes"},
    )
    late = datagrams.first_ns[1:] < datagrams.first_ns[:-1]
    if late.any():
        capture = get_capture_numbers(datagrams.source)
        if (late & (capture[1:] == capture[:-1])).any():
            datagrams = datagrams.select(np.lexsort((datagrams.first_ns, capture)))
    return datagrams
