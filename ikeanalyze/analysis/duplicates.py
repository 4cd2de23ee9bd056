"""Frames that the capture holds twice because it was taken on several interfaces, and that crossed the wire once.

A router, a bridge or the "any" device shows the same packet on its way in and on its way out: same IP identification, same
content, within microseconds. A retransmission has the same content too, but comes after a timer. Packets without an IP
identification (IPv6, and IPv4 from stacks that leave it 0) must differ in where they were seen: a responder that answers two
queued requests at once does send the same bytes twice within microseconds.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from ikeanalyze.analysis.ordering import bring_together
from ikeanalyze.capture.frames import Columns
from ikeanalyze.capture.network import NO_IDENT

#: A packet crosses a machine within this time; retransmission timers are a hundred times longer.
WITHIN_NS: Final = 1_000_000


def mark_duplicates(columns: Columns) -> npt.NDArray[np.bool_]:
    """Which frames are later sightings of a frame that the capture holds already. (n,)

    IP fragments of one datagram are judged as a whole, by their first frames.
    """
    known: npt.NDArray[np.bool_] = columns["capture_duplicate"].astype(np.bool_)
    digest, time, unit = columns["digest"], columns["time_ns"], columns["unit"]
    order = bring_together(digest)
    content, when = digest[order], time[order]
    same = np.flatnonzero((content[1:] == content[:-1]) & (np.abs(when[1:] - when[:-1]) <= WITHIN_NS))
    if not len(same):
        return known
    # equal content within the time: duplicates, fragments of one datagram, answers to queued requests
    candidates = np.unique(np.concatenate([order[same], order[same + 1]]))
    first_of_unit: dict[int, int] = {}
    seen: dict[tuple[int, int], list[int]] = {}
    repeated_units: set[int] = set()
    ident, ttl, interface = columns["ip_id"], columns["ttl"], columns["interface"]
    size, fragment = columns["ike_bytes"], columns["fragment"]
    for row in candidates.tolist():
        if int(unit[row]) in first_of_unit or known[row]:
            continue
        first_of_unit[int(unit[row])] = row
        earlier = seen.setdefault((int(digest[row]), int(ident[row])), [])
        while earlier and int(time[row]) - int(time[earlier[0]]) > WITHIN_NS:
            earlier.pop(0)
        for other in earlier:
            if size[row] != size[other] or fragment[row] != fragment[other]:
                continue
            elsewhere = ttl[row] != ttl[other] or interface[row] != interface[other]
            if elsewhere or ident[row] not in (0, NO_IDENT):
                repeated_units.add(int(unit[row]))
                break
        else:
            earlier.append(row)
    if repeated_units:
        known = known | np.isin(unit, np.fromiter(repeated_units, np.uint32))
    return known
