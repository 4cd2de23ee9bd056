"""Facts that the analysis of a part of a capture needs of the other parts.

A capture larger than memory is analysed in parts (`dataset.buckets`), each with all frames of some initiators' SPIs.
Most rules look at one IKE SA. The others compare several: which round trip is the shortest between two hosts, which
endpoints a NAT translates, how many frames a mirror port doubles. Each of these rules shares the rows that it starts
from, and uses those of the whole capture.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from ikeanalyze.capture.arrays import Int64Array, sort_distinct

#: Columns of one length.
Rows = Mapping[str, npt.NDArray[Any]]
#: Number of the packet (None: the whole capture) and text.
CaptureWarning = tuple[int | None, str]


class SharedFact(StrEnum):
    """The facts, in the order in which the analysis needs them: each may depend on those before it."""

    COPIED_REQUESTS = "requests that a mirror port copied, by hosts"
    SENT_REQUESTS = "requests of these hosts"
    TRANSLATED = "endpoints of initiators that a NAT translates"
    SEVERAL_FRAMES = "datagrams of several frames"
    DOUBLED = "contents that the capture has more than once"
    ROUND_TRIPS = "intervals from a response to the next request, by hosts"
    LONG_PATHS = "repetitions, by hosts"
    RADIUS = "times of RADIUS requests"
    WAITING = "initiators' SPIs of handshakes that may have waited for RADIUS"
    MISSING_FRAGMENTS = "messages that lack fragments"
    WRONG_FLAGS = "messages with flags that contradict IKE_SA_INIT"
    DECRYPTED_REQUESTS = "IKE_AUTH requests that were decrypted before they were captured"
    REPEATED_SET_UPS = "handshakes and IKE_SA_INIT requests that repeat earlier ones"
    CREATED_SAS = "CREATE_CHILD_SA responses, by hosts"
    PATH_INTERVALS = "intervals that contain the path, by hosts and side"
    UNUSED_RTT = "handshakes for which the given round-trip time is not used"
    CONTRADICTED_RTT = "handshakes that had less time than the given round-trip time"
    UNCERTAIN_TIMES = "handshakes whose times are uncertain"
    LAB_HANDSHAKES = "handshakes of the lab's manifest"
    RESPONDERS_ON_4500 = "responders that sent something from UDP port 4500"
    REDIRECTED_SET_UPS = "handshakes that a redirected initiator began"
    PORT_4500 = "number of messages on UDP port 4500"
    ACCEPTED_PROPOSALS = "the proposal that each responder accepted first"
    ICMP_ERRORS = "datagrams that ICMP errors without an SPI may be about"


class CaptureFacts:
    """The facts of captures that are analysed as a whole: there are no others."""

    partial = False  #: whether this is the analysis of a part of a capture

    def share(
        self,
        fact: SharedFact,  # noqa: ARG002
        rows: Callable[[], Rows],  # noqa: ARG002
        *,
        needed: bool = True,  # noqa: ARG002
        hosts: Callable[[], npt.NDArray[np.uint64]] | None = None,  # noqa: ARG002
    ) -> Rows | None:
        """Share rows; return those of the whole capture, or None if these are all.

        The rows of the whole capture are in any order, and without those that change no result. If they are not
        `needed`, because this part does not depend on them, the result is None. `hosts` are the pairs of hosts that it
        depends on if it does not depend on others: address codes of initiators and responders. (2, n)
        """
        return None

    def total(self, fact: SharedFact, **numbers: int) -> Mapping[str, int]:
        """Sums over the whole capture."""
        rows = self.share(fact, lambda: {name: np.array([number], np.int64) for name, number in numbers.items()})
        return numbers if rows is None else {name: int(rows[name].sum()) for name in numbers}

    def group_findings(
        self, fact: SharedFact, frame: Int64Array, kind: npt.NDArray[Any], capture: Int64Array
    ) -> Iterator[tuple[int, int, Int64Array]]:
        """Share findings about packets; yield those of each capture and each kind, in the order of both.

        Args:
            fact: what they are.
            frame: the number of the packet. (findings,)
            kind: the number of the kind. (findings,)
            capture: the number of the capture; a capture that is analysed in parts is 0. (findings,)

        Yields:
            The numbers of the capture and of the kind, and the numbers of the packets, rising.
        """
        rows = self.share(fact, lambda: {"frame": frame, "kind": kind})
        if rows is not None:
            frame, kind = rows["frame"], rows["kind"]
            capture = np.zeros(len(frame), np.int64)
        for number in sort_distinct(capture).tolist():
            own = capture == number
            for each in sort_distinct(kind[own]).tolist():
                yield number, each, np.sort(frame[own & (kind == each)])


WHOLE_CAPTURE = CaptureFacts()
