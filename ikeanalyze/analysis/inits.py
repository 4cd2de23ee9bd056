"""The clear IKE_SA_INIT of a hundred thousand handshakes, each distinct form of it parsed once.

A testbed's handshakes differ in SPIs, nonces, key exchange data, cookies and NAT detection hashes, and in nothing else that a report
shows. So messages are grouped by what is left when these are passed over, and one of each group is parsed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import xxhash

from ikeanalyze.capture.columns import gather
from ikeanalyze.capture.records import PADDING
from ikeanalyze.wire.ikev2 import InitView, read_init

_HEADER: Final = 28
_SA, _KE, _CERTREQ, _NONCE, _NOTIFY = 33, 34, 38, 40, 41
#: Notifies of which only the type counts: NAT_DETECTION_SOURCE_IP, NAT_DETECTION_DESTINATION_IP, COOKIE.
_PASSED_OVER: Final = np.array([16388, 16389, 16390], np.uint16)
#: Payloads that are looked at; a message with more is parsed by itself.
_MOST_PAYLOADS: Final = 48

_PAYLOAD: Final = np.dtype(
    [("next", "u1"), ("flags", "u1"), ("length", ">u2"), ("protocol", "u1"), ("spi_size", "u1"), ("type", ">u2"),
     ("rest", "V12")]
)  # fmt: skip


@dataclass(slots=True)
class Inits:
    """Messages grouped by form."""

    form: npt.NDArray[np.int64]  # of each message: index into views
    views: list[InitView]  # of one message of each form: its nonce and hashes are that message's own
    samples: list[bytes]  # that message


def read_inits(messages: Sequence[bytes]) -> Inits:
    """Group IKE_SA_INIT messages by form and parse one of each."""
    keys = _forms(messages)
    _, first, form = np.unique(keys, return_index=True, return_inverse=True)
    samples = [messages[index] for index in first.tolist()]
    return Inits(form.astype(np.int64), [read_init(sample) for sample in samples], samples)


def _forms(messages: Sequence[bytes]) -> npt.NDArray[np.uint64]:
    """A number for each message, equal for messages of one form."""
    count = len(messages)
    size = np.fromiter((len(message) for message in messages), np.int64, count)
    joined = b"".join(messages)
    buffer = np.frombuffer(joined + bytes(PADDING), np.uint8)
    begin = np.cumsum(size) - size
    end = begin + size
    digest = xxhash.xxh3_64_intdigest
    trace = np.zeros((count, _MOST_PAYLOADS + 1), np.uint64)
    odd = size < _HEADER
    rows = np.flatnonzero(~odd)
    at = begin + _HEADER
    kind = np.zeros(count, np.uint8)
    kind[rows] = buffer[begin[rows] + 16]
    trace[rows, _MOST_PAYLOADS] = kind[rows]
    view = memoryview(joined)
    for column in range(_MOST_PAYLOADS):
        rows = rows[kind[rows] != 0]
        if not len(rows):
            break
        header = gather(buffer, at[rows], _PAYLOAD)
        length = header["length"].astype(np.int64)
        bad = (at[rows] + 4 > end[rows]) | (length < 4) | (at[rows] + length > end[rows])
        odd[rows[bad]] = True
        rows, header, length = rows[~bad], header[~bad], length[~bad]
        this = kind[rows]
        notify = this == _NOTIFY
        passed = (this == _NONCE) | (this == _CERTREQ) | (notify & np.isin(header["type"], _PASSED_OVER))
        step = length.astype(np.uint64) << np.uint64(32) | header["next"].astype(np.uint64) << np.uint64(24)
        step |= header["flags"].astype(np.uint64) << np.uint64(16)
        step[notify] |= header["type"][notify]
        key_exchange = this == _KE
        step[key_exchange] |= header["protocol"][key_exchange].astype(np.uint64) << np.uint64(8)
        step[key_exchange] |= header["spi_size"][key_exchange]
        # what is neither passed over nor told by its type alone counts byte by byte
        whole = np.flatnonzero(~passed & ~key_exchange & ~(notify & (length == 8)))
        starts, ends = at[rows[whole]], at[rows[whole]] + length[whole]
        step[whole] ^= np.fromiter(
            (digest(view[a:b]) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)),
            np.uint64,
            len(whole),
        )
        trace[rows, column] = step
        at[rows] += length
        kind[rows] = header["next"]
    odd[rows[kind[rows] != 0]] = True
    width = trace.shape[1] * trace.itemsize
    flat = memoryview(trace.tobytes())
    keys = np.fromiter(
        (digest(flat[a : a + width]) for a in range(0, count * width, width)), np.uint64, count
    )
    for index in np.flatnonzero(odd).tolist():
        keys[index] = digest(messages[index])
    return keys
