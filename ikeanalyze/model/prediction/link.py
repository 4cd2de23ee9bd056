"""The link that a handshake is predicted for, and how the peers use it."""

from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Final

#: Allowed values; others are typing errors.
_MAX_MS: Final = 1e7
_MIN_RATE: Final = 100.0
_MAX_RATE: Final = 1e12
_MIN_MTU: Final = 296  # proposed by RFC 1144 for slow links; IPv4 itself allows 68
MAX_MTU: Final = 65535


class LinkError(ValueError):
    """A link is invalid; the message has the value and the allowed range, and `what` names the field."""

    def __init__(self, what: str, text: str) -> None:
        super().__init__(text)
        self.what = what


class IkeTransport(StrEnum):
    """The transport of IKE."""

    UDP = "udp"
    TCP = "tcp"  # RFC 9329


class ResponseTrigger(StrEnum):
    """Part of a retransmitted request that triggers another transmission of the response."""

    FIRST = "first-fragment"  # fragment number 1: RFC 7383, section 2.6.1
    ALL = "all-fragments"  # all fragments again: strongSwan before it followed that section


@dataclass(frozen=True, slots=True)
class LossBurst:
    """Loss bursts: the two-state model of Gilbert and Elliott.

    Each direction is in a good or a bad state. In the bad state a frame is lost with probability `loss`, in the good
    state none is lost. The share of time in the bad state follows from the mean loss of the link.
    """

    mean: float  # mean length of the bad state: ms, or frames
    of_frames: bool  # `mean` is in frames, as in the gemodel of tc-netem
    loss: float = 1.0  # probability of loss in the bad state

    def compute_transitions(self, loss: float) -> tuple[float, float]:
        """Probabilities, per frame, of entering and of leaving the bad state, if the mean loss is `loss`."""
        bad_share = loss / self.loss
        return bad_share / (self.mean * (1 - bad_share)), 1 / self.mean


@dataclass(frozen=True, slots=True)
class LinkModel:
    """A path between initiator and responder; both directions are the same except for the rate."""

    rtt_ms: float  # round-trip propagation delay, without transmission times
    loss: float = 0.0  # mean share of lost frames in each direction
    jitter_ms: float = 0.0  # maximum deviation of the one-way delay of a message, uniform; messages are not reordered
    rate_up: float | None = None  # bit/s from initiator to responder; None: unlimited
    rate_down: float | None = None
    mtu: int | None = None  # bytes of the largest IP packet; None: as recorded
    drop_ip_fragments: bool = False  # the path drops IP fragments
    aaa_rtt_ms: float = 0.0  # added to each recorded round trip to the AAA server
    burst: LossBurst | None = None  # None: losses are independent
    name: str | None = None  # of the scenario


def validate_link(link: LinkModel) -> LinkModel:
    """Return `link` if it is valid.

    Raises:
        LinkError: a value is out of range.
    """
    _check_range("rtt", link.rtt_ms, 0, _MAX_MS, "milliseconds")
    _check_range("jitter", link.jitter_ms, 0, link.rtt_ms / 2, "milliseconds (half the round-trip time)")
    _check_range("aaa-rtt", link.aaa_rtt_ms, 0, _MAX_MS, "milliseconds")
    hint = " 20 % is written 0.2" if link.loss >= 1 else ""
    _require("loss", 0 <= link.loss < 1, f"{link.loss:g} is not a share of lost frames from 0 to less than 1.{hint}")
    for rate in (link.rate_up, link.rate_down):
        if rate is not None:
            hint = f" {rate:g} kbit/s is written {rate:g}k" if 1 <= rate < _MIN_RATE else ""
            _check_range("rate", rate, _MIN_RATE, _MAX_RATE, "bit/s", hint)
    if link.mtu is not None:
        _check_range("mtu", link.mtu, _MIN_MTU, MAX_MTU, "bytes")
    if link.burst is not None:
        _check_burst(link.burst, link.loss)
    return link


def _check_burst(burst: LossBurst, loss: float) -> None:
    _require("burst", isfinite(burst.mean) and burst.mean > 0, f"{burst.mean:g} is not the length of a burst")
    problem = f"{burst.loss:g} is not a probability of loss in a burst, more than 0 and up to 1"
    _require("burst-loss", 0 < burst.loss <= 1, problem)
    problem = f"a mean loss of {loss:g} needs a higher loss in bursts than {burst.loss:g}"
    _require("burst-loss", loss < burst.loss, problem)
    if burst.of_frames:
        # good and bad states have at least one frame
        bad = loss / burst.loss
        _require("burst", burst.mean >= 1, f"{burst.mean:g}: a burst has at least one frame")
        least = bad / (1 - bad)
        problem = f"{burst.mean:g}: with a mean loss of {loss:g} bursts have at least {least:.3g} frames"
        _require("burst", burst.mean >= least, problem)


def _check_range(what: str, value: float, low: float, high: float, unit: str, hint: str = "") -> None:
    sentence_end = "." if hint else ""
    problem = f"{value:g} is not in the range {low:g} to {high:g} {unit}{sentence_end}{hint}"
    _require(what, low <= value <= high, problem)


def _require(what: str, valid: bool, text: str) -> None:
    if not valid:
        raise LinkError(what, text)
