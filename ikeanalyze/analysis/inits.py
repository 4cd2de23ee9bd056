"""The clear IKE_SA_INIT of a hundred thousand handshakes, each distinct form of it parsed once.

A testbed's handshakes differ in SPIs, nonces, key exchange data, cookies and NAT detection hashes, and in nothing else that a report
shows. So a message is parsed, these places in it are masked, and every message that is equal to it elsewhere has the same form.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ikeanalyze.analysis.nat import HashPlaces
from ikeanalyze.wire.ikev2 import InitView, payloads, read_init

_KE, _CERTREQ, _NONCE, _NOTIFY = 34, 38, 40, 41
#: Notifies of which only the type counts: NAT_DETECTION_SOURCE_IP, NAT_DETECTION_DESTINATION_IP, COOKIE.
_PASSED_OVER: Final = frozenset({16388, 16389, 16390})
_SPIS: Final = 16
#: Messages of one length are compared with this many forms; those that fit none are parsed one by one.
_MOST_FORMS: Final = 64


@dataclass(slots=True)
class Inits:
    """Messages grouped by form."""

    form: npt.NDArray[np.int64]  # of each message: index into views
    views: list[InitView]  # of one message of each form: its nonce and hashes are that message's own
    #: Whether the sender, and the receiver, of each message is not where it says (see `nat`): 1, 0, or -1 where it says nothing.
    sender_differs: npt.NDArray[np.int8]
    receiver_differs: npt.NDArray[np.int8]


def read_inits(messages: Sequence[bytes], sources: Sequence[bytes], destinations: Sequence[bytes]) -> Inits:
    """Group IKE_SA_INIT messages by form and parse one of each.

    `sources` and `destinations` are the endpoints that each message was seen with: address (4 or 16 bytes) and port (2 bytes).
    """
    count = len(messages)
    result = Inits(np.zeros(count, np.int64), [], np.full(count, -1, np.int8), np.full(count, -1, np.int8))
    size = np.fromiter((len(message) for message in messages), np.int64, count)
    order = np.argsort(size, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(size[order])) + 1):
        if len(rows):
            _same_length(rows, messages, sources, destinations, result)
    return result


def _same_length(
    rows: npt.NDArray[np.int64],
    messages: Sequence[bytes],
    sources: Sequence[bytes],
    destinations: Sequence[bytes],
    result: Inits,
) -> None:
    chosen = rows.tolist()
    matrix = np.frombuffer(b"".join([messages[row] for row in chosen]), np.uint8).reshape(len(rows), -1)
    rest = np.arange(len(rows))
    for _ in range(_MOST_FORMS):
        if not len(rest):
            return
        sample = messages[chosen[rest[0]]]
        alike = _alike(matrix, sample)
        if alike.all():
            _enter(rows[rest], matrix, sample, messages, sources, destinations, result)
            return
        _enter(rows[rest[alike]], matrix[alike], sample, messages, sources, destinations, result)
        rest, matrix = rest[~alike], matrix[~alike]
    for place, index in enumerate(rest.tolist()):
        one = rows[index : index + 1]
        _enter(one, matrix[place : place + 1], messages[chosen[index]], messages, sources, destinations, result)


def _alike(matrix: npt.NDArray[np.uint8], sample: bytes) -> npt.NDArray[np.bool_]:
    """Which rows are equal to a message wherever its bytes count."""
    mask = np.where(_mask(sample), 0xFF, 0).astype(np.uint8)
    this = np.frombuffer(sample, np.uint8)
    # eight bytes at a time, then the few that are left
    words = len(sample) // 8 * 8
    difference = (matrix[:, :words].view(np.uint64) ^ this[:words].view(np.uint64)) & mask[:words].view(np.uint64)
    different = difference.any(axis=1)
    different |= ((matrix[:, words:] ^ this[words:]) & mask[words:]).any(axis=1)
    return ~different


def _mask(sample: bytes) -> npt.NDArray[np.bool_]:
    """Which bytes of a message count for its form."""
    counts = np.ones(len(sample), np.bool_)
    counts[:_SPIS] = False
    for payload in payloads(sample).payloads:
        begin, end = payload.offset + 4, payload.offset + 4 + len(payload.body)
        if payload.type == _NOTIFY:
            passed = int.from_bytes(payload.body[2:4], "big") in _PASSED_OVER
            begin = begin + 4 if passed else end
        elif payload.type == _KE:
            begin += 4  # the method counts
        elif payload.type not in (_NONCE, _CERTREQ):
            begin = end
        counts[begin:end] = False
    return counts


def _enter(
    rows: npt.NDArray[np.int64],
    matrix: npt.NDArray[np.uint8],
    sample: bytes,
    messages: Sequence[bytes],
    sources: Sequence[bytes],
    destinations: Sequence[bytes],
    result: Inits,
) -> None:
    """One more form, with the messages that have it."""
    view = read_init(sample)
    result.form[rows] = len(result.views)
    result.views.append(view)
    places = HashPlaces(view, sample)
    some = rows.tolist()
    result.sender_differs[rows] = places.sender_differs(matrix, [sources[row] for row in some])
    result.receiver_differs[rows] = places.receiver_differs(matrix, [destinations[row] for row in some])
