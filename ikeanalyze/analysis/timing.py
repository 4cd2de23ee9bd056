"""Where the time of a handshake went, and what of that is known and what is estimated.

The capture sees each exchange from where it was taken. Time runs in turns: from a request to its response the responder has it
(and the path between it and the capture), from a response to the next request the initiator has it (and the path on its side);
between the first transmission of a request and the one that was answered, a timer was waited for. These intervals follow one another
without gap or overlap from the first request to the last frame of the last response, so that they add up to the set-up time exactly.

On the initiator's machine its own turns are exact and the path is contained in the responder's turns; on the responder's it is the other
way round. There the path's round-trip time is taken off: the one that was given, else the shortest turn ever seen of that side between
these two hosts, which is an estimate from above. Where the vantage is unknown, nothing is taken off, and the network's part is null.

Which side it is: a packet that has crossed no router has the time to live that its sender's system begins with (64, 128 or 255;
RFC 1700, RFC 8200, 3 for the hop limit). If that holds in one direction only, its sender's side is where the capture was taken.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ikeanalyze.analysis.exchanges import UNKNOWN, Exchanges

Numbers = npt.NDArray[np.int64]

_FRESH_TTLS: Final = np.array([64, 128, 255], np.uint8)

INITIATOR: Final = 0
RESPONDER: Final = 1
UNKNOWN_VANTAGE: Final = 2


@dataclass(slots=True)
class Breakdown:
    """Parts of the set-up time, one row per handshake, ns; UNKNOWN: contained in the other parts, or no set-up time."""

    setup_ns: Numbers
    network_ns: Numbers
    initiator_ns: Numbers
    responder_ns: Numbers
    aaa_ns: Numbers
    wait_ns: Numbers
    path_rtt_ns: Numbers
    end_ns: Numbers


def vantages(
    handshake: Numbers, from_initiator: npt.NDArray[np.bool_], ttl: npt.NDArray[np.uint8], count: int
) -> npt.NDArray[np.uint8]:
    """INITIATOR, RESPONDER or UNKNOWN_VANTAGE for each of `count` handshakes, by the TTLs of its units."""
    fresh = np.isin(ttl, _FRESH_TTLS)

    def all_fresh(side: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        sent = np.bincount(handshake[side], minlength=count)
        good = np.bincount(handshake[side & fresh], minlength=count)
        return (sent > 0) & (sent == good), (sent > 0) & (good == 0)

    initiator_fresh, initiator_worn = all_fresh(from_initiator)
    responder_fresh, responder_worn = all_fresh(~from_initiator)
    result = np.full(count, UNKNOWN_VANTAGE, np.uint8)
    result[initiator_fresh & responder_worn] = INITIATOR
    result[responder_fresh & initiator_worn] = RESPONDER
    return result


def break_down(
    exchanges: Exchanges,
    whole: npt.NDArray[np.bool_],
    vantage: npt.NDArray[np.uint8],
    pair: Numbers,
    aaa_ns: Numbers,
    rtt_ns: int | None,
) -> Breakdown:
    """Take each handshake's set-up time apart.

    Args:
        exchanges: of the whole capture, ordered by handshake and time.
        whole: which handshakes are complete from the first request to the last response. (handshakes,)
        vantage: of each handshake. (handshakes,)
        pair: a number for the two hosts of each handshake, between which the path is one. (handshakes,)
        aaa_ns: time that the responder waited for the AAA server, in each exchange. (exchanges,)
        rtt_ns: the path's round-trip time, if it was given.
    """
    count = len(whole)
    rows = np.flatnonzero(exchanges.set_up & whole[exchanges.handshake] & (exchanges.request_messages > 0))
    handshake = exchanges.handshake[rows]
    answered = exchanges.answer_ns[rows] != UNKNOWN
    # IKEv1's aggressive and quick mode end with a message that is not answered: it ends with its own last transmission
    answer = np.where(answered, exchanges.answer_ns[rows], exchanges.request_ns[rows])
    asked = np.where(answered, exchanges.answered_ns[rows], exchanges.request_ns[rows])
    end = np.where(answered, exchanges.end_ns[rows], exchanges.request_ns[rows])
    request = exchanges.request_ns[rows]
    last = np.ones(len(rows), np.bool_)
    last[:-1] = handshake[1:] != handshake[:-1]
    following = np.where(last, end, np.append(request[1:], 0))
    # a response that the capture saw late cannot have been later than the request that it led to
    answer = np.minimum(answer, following)
    asked = np.minimum(asked, answer)

    wait = asked - request
    theirs = answer - asked  # the responder's turn, the AAA server's included
    ours = (
        following - answer
    )  # the initiator's turn; of the last exchange: the rest of a response in fragments
    flipped = ~exchanges.initiator_asked[rows]
    theirs, ours_turn = np.where(flipped, 0, theirs), np.where(flipped, theirs, 0) + np.where(last, 0, ours)
    tail = np.where(last, ours, 0)
    aaa = np.minimum(np.where(flipped, 0, aaa_ns[rows]), theirs)

    sign = np.where(flipped, UNKNOWN_VANTAGE, vantage[handshake])
    path = _path_rtt(pair[handshake], sign, theirs, np.where(last, UNKNOWN, ours), rtt_ns)
    known = path != UNKNOWN
    taken_theirs = np.where(known & (sign == INITIATOR), np.minimum(path, theirs - aaa), 0)
    taken_ours = np.where(known & (sign == RESPONDER) & ~last, np.minimum(path, ours), 0)
    network = taken_theirs + taken_ours

    def total(values: Numbers) -> Numbers:
        summed = np.zeros(count, np.int64)
        np.add.at(summed, handshake, values)
        return np.where(whole, summed, UNKNOWN)

    first = np.ones(len(rows), np.bool_)
    first[1:] = last[:-1]
    first_ns, end_ns = np.full(count, UNKNOWN), np.full(count, UNKNOWN)
    first_ns[handshake[first]] = request[first]
    end_ns[handshake[last]] = end[last]
    estimated = np.zeros(count, np.bool_)
    estimated[handshake[known & (network > 0)]] = True
    path_rtt = np.full(count, UNKNOWN)
    path_rtt[handshake[known]] = path[known]
    # a response that came in fragments was on its way while the last of them came: the sender's part
    responder = total(theirs - aaa - taken_theirs + tail)
    return Breakdown(
        setup_ns=np.where(whole, end_ns - first_ns, UNKNOWN),
        network_ns=np.where(whole & estimated, total(network), UNKNOWN),
        initiator_ns=total(ours_turn - taken_ours),
        responder_ns=responder,
        aaa_ns=total(aaa),
        wait_ns=total(wait),
        path_rtt_ns=path_rtt,
        end_ns=end_ns,
    )


def _path_rtt(pair: Numbers, vantage: Numbers, theirs: Numbers, ours: Numbers, rtt_ns: int | None) -> Numbers:
    """The path's round-trip time as it is taken off each exchange."""
    known = vantage != UNKNOWN_VANTAGE
    if rtt_ns is not None:
        return np.where(known, rtt_ns, UNKNOWN)
    far = np.where(vantage == INITIATOR, theirs, ours)
    usable = known & (far != UNKNOWN) & (far >= 0)
    if not usable.any():
        return np.full(len(pair), UNKNOWN)
    shortest = np.full(int(pair.max()) * 2 + 2, np.iinfo(np.int64).max)
    slot = pair * 2 + (vantage == RESPONDER)
    np.minimum.at(shortest, slot[usable], far[usable])
    path = shortest[slot]
    return np.where(known & (path != np.iinfo(np.int64).max), path, UNKNOWN)
