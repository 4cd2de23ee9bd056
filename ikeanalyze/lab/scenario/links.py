"""Conditions of the links of a scenario."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from ikeanalyze.model.prediction.link import LossBurst

Direction = Literal["up", "down"]  # away from the initiator, and towards it
DIRECTIONS: Final[tuple[Direction, ...]] = ("up", "down")
#: Limit for a seed, so that every TOML and JSON parser reads it exactly.
MAX_SEED: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class DirectionConditions:
    """Conditions of one direction of a link."""

    delay_ms: float  # without jitter, and without serialisation at the link's rate
    loss: float  # mean share of lost frames
    rate_kbps: float  # 0: no limit


class LinkConditions(Struct, frozen=True, forbid_unknown_fields=True):
    """Conditions of a link. A value of one direction replaces that of both; "up" is away from the initiator."""

    rtt_ms: Annotated[float, Meta(ge=0, le=10_000)] = 0.0
    jitter_ms: Annotated[float, Meta(ge=0, le=1_000)] = 0.0  # uniform around half the round-trip time
    loss_percent: Annotated[float, Meta(ge=0, le=90)] = 0.0  # of frames, in each direction
    rate_kbps: Annotated[float, Meta(ge=0, le=10_000_000)] = 0.0  # 0: no limit
    mtu: Annotated[int, Meta(ge=576, le=9000)] = 1500
    drop_ip_fragments: bool = False
    drop_larger_than: Annotated[int, Meta(ge=0, le=9000)] = 0  # IP packets of more bytes; 0: none
    drop_port: Annotated[int, Meta(ge=0, le=65_535)] = 0  # UDP port of either host; 0: none
    drop_direction: Literal["both", "up", "down"] = "both"  # of all three
    delay_up_ms: Annotated[float, Meta(ge=0, le=10_000)] | None = None
    delay_down_ms: Annotated[float, Meta(ge=0, le=10_000)] | None = None
    loss_up_percent: Annotated[float, Meta(ge=0, le=90)] | None = None
    loss_down_percent: Annotated[float, Meta(ge=0, le=90)] | None = None
    rate_up_kbps: Annotated[float, Meta(ge=0, le=10_000_000)] | None = None
    rate_down_kbps: Annotated[float, Meta(ge=0, le=10_000_000)] | None = None
    burst_frames: Annotated[float, Meta(ge=0, le=10_000)] = 0.0  # mean length; 0: losses are independent
    burst_loss_percent: Annotated[float, Meta(ge=0, le=100)] = 100.0  # of the frames in a burst
    seed: Annotated[int, Meta(ge=0, le=MAX_SEED)] = 0  # of the losses; 0: any

    def get_direction(self, direction: Direction) -> DirectionConditions:
        """Return the conditions of a direction."""
        up = direction == "up"
        delay, loss, rate = (
            (self.delay_up_ms, self.loss_up_percent, self.rate_up_kbps)
            if up
            else (self.delay_down_ms, self.loss_down_percent, self.rate_down_kbps)
        )
        return DirectionConditions(
            self.rtt_ms / 2 if delay is None else delay,
            (self.loss_percent if loss is None else loss) / 100,
            self.rate_kbps if rate is None else rate,
        )

    @property
    def loses_frames(self) -> bool:
        """Whether frames are lost by chance."""
        return any(self.get_direction(direction).loss for direction in DIRECTIONS)

    def drops_frames(self, direction: Direction) -> bool:
        """Whether all frames of a kind are dropped in a direction."""
        kinds = self.drop_ip_fragments or self.drop_larger_than or self.drop_port
        return bool(kinds) and self.drop_direction in ("both", direction)

    @property
    def burst(self) -> LossBurst | None:
        """Bursts of losses; None: losses are independent."""
        return LossBurst(self.burst_frames, True, self.burst_loss_percent / 100) if self.burst_frames else None

    @property
    def max_delay_s(self) -> float:
        """Maximum one-way delay of a frame, without serialisation at the link's rate."""
        return (max(self.get_direction(direction).delay_ms for direction in DIRECTIONS) + self.jitter_ms) / 1e3


class NatLinkConditions(LinkConditions, frozen=True):
    """The link between initiator and responder."""

    nat: bool = False
