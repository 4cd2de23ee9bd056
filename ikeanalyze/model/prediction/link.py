"""The link that a handshake is predicted for, and how the two sides use it."""

from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Final

#: Bounds of what is taken; beyond them is a slip of the pen.
LONGEST_MS: Final = 1e7
SMALLEST_RATE: Final = 100.0
LARGEST_RATE: Final = 1e12
SMALLEST_MTU: Final = 296  # RFC 1144's proposal for slow links; IPv4 itself would allow 68
LARGEST_MTU: Final = 65535


class LinkError(ValueError):
    """No link can be like that; the text has the value and what is allowed, `what` names the field."""

    def __init__(self, what: str, text: str) -> None:
        super().__init__(text)
        self.what = what


class IkeTransport(StrEnum):
    """What carries IKE."""

    UDP = "udp"
    TCP = "tcp"  # RFC 9329


class ResponseTrigger(StrEnum):
    """What of a repeated request that has been answered makes the responder send its response again."""

    FIRST = "first-fragment"  # fragment number 1 alone: RFC 7383, section 2.6.1
    ALL = "all-fragments"  # each time that it has got all of them anew: strongSwan before it followed that section


@dataclass(frozen=True, slots=True)
class LossBurst:
    """Losses that come together: the two-state model of Gilbert and Elliott.

    The link is good or bad, each direction by itself. In the bad state a frame is lost with probability `loss`, in the
    good state none is. How much of the time is bad follows from the link's mean loss.
    """

    mean: float  # length of the bad state, on the average: ms of time, or frames sent
    of_frames: bool  # `mean` counts frames, as tc-netem's gemodel does, and not time
    loss: float = 1.0  # probability of loss in the bad state


@dataclass(frozen=True, slots=True)
class LinkModel:
    """A path between initiator and responder, the same in both directions but for the rate."""

    rtt_ms: float  # propagation, there and back, without serialisation
    loss: float = 0.0  # mean share of the frames that are lost, in each direction
    #: A message takes up to so much more or less, each way, uniformly, and overtakes none.
    jitter_ms: float = 0.0
    rate_up: float | None = None  # bit/s from initiator to responder; None: as fast as need be
    rate_down: float | None = None
    mtu: int | None = None  # bytes of the largest IP packet; None: as it was recorded
    drop_ip_fragments: bool = False  # something on the path drops them
    aaa_rtt_ms: float = 0.0  # round trip that each exchange with the AAA server takes on top of what was recorded
    burst: LossBurst | None = None  # None: losses are independent
    name: str | None = None  # of the scenario


def validate_link(link: LinkModel) -> LinkModel:
    """`link`, if it can be meant.

    Raises:
        LinkError: it cannot.
    """
    _within("rtt", link.rtt_ms, 0, LONGEST_MS, "milliseconds")
    _within("jitter", link.jitter_ms, 0, link.rtt_ms / 2, "milliseconds (half the round-trip time)")
    _within("aaa-rtt", link.aaa_rtt_ms, 0, LONGEST_MS, "milliseconds")
    hint = " 20 % is written 0.2" if link.loss >= 1 else ""
    _require("loss", 0 <= link.loss < 1, f"{link.loss:g} is no share of lost frames: 0 to less than 1.{hint}")
    for rate in (link.rate_up, link.rate_down):
        if rate is not None:
            _within("rate", rate, SMALLEST_RATE, LARGEST_RATE, "bit/s")
    if link.mtu is not None:
        _within("mtu", link.mtu, SMALLEST_MTU, LARGEST_MTU, "bytes")
    if link.burst is not None:
        _check_burst(link.burst, link.loss)
    return link


def _check_burst(burst: LossBurst, loss: float) -> None:
    _require("burst", isfinite(burst.mean) and burst.mean > 0, f"{burst.mean:g} is no length of a burst")
    _require(
        "burst-loss",
        0 < burst.loss <= 1,
        f"{burst.loss:g} is no probability of loss within a burst: more than 0 to 1",
    )
    _require(
        "burst-loss",
        loss < burst.loss,
        f"a mean loss of {loss:g} needs more loss within bursts than {burst.loss:g}",
    )
    if burst.of_frames:
        # a good state must last a frame at least, and a bad one too
        bad = loss / burst.loss
        _require("burst", burst.mean >= 1, f"{burst.mean:g}: a burst is one frame long at least")
        least = bad / (1 - bad)
        _require(
            "burst",
            burst.mean >= least,
            f"{burst.mean:g}: with a mean loss of {loss:g} bursts are {least:.3g} frames long at least",
        )


def _within(what: str, value: float, low: float, high: float, unit: str) -> None:
    _require(what, low <= value <= high, f"{value:g} is not allowed; allowed is {low:g} to {high:g} {unit}")


def _require(what: str, fine: bool, text: str) -> None:
    if not fine:
        raise LinkError(what, text)
