"""When an IKE SA ends, so that its handshake is reported and its frames are given up.

All times are times of the capture. Once a second of it, the first rule that applies decides:

1. Complete: no message of the IKE SA came for `settle_ns`, and its handshakes are established, completed or failed
   (see `analysis.handshakes.outcome`). The analysis itself decides this, so that it is not defined twice.
2. Silent: no message came for `timeout_ns`. The retransmissions of common stacks are at most a minute apart.
3. Long: its first message is older than `longest_ns`. This ends IKE SAs that never become silent, and those that were
   set up before the capture began.
4. Too many: there are more than `most_frames` frames. The IKE SAs whose last message is oldest end first.
5. The capture ends.

A time is past in both directions: after the clock of the capturing host was set back, the IKE SAs from before end too.
"""

from dataclasses import dataclass
from typing import Final

#: Time of the capture between two decisions.
TICK_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EndingRules:
    """The limits of the rules above."""

    settle_ns: int = 10_000_000_000
    timeout_ns: int = 180_000_000_000
    longest_ns: int = 900_000_000_000
    most_frames: int = 1_000_000
    #: IKE SAs that ended whose later messages are recognised and not counted; the longest silent are forgotten first.
    remembered: int = 1_000_000
    #: Packets and IPv6 addresses after which the numbers of frames, messages and addresses begin again.
    renewal_packets: int = 1 << 31
    renewal_addresses: int = 100_000
