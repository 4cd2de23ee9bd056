"""An IKE daemon of one side of a case, whatever stack it is of: what `run` and `steps` ask of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from ikeanalyze.lab.daemon import Daemon

#: Name of the connection, and of its CHILD_SA, with every stack.
NAME: Final = "lab"


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How one command at a daemon ended."""

    done: bool
    #: Where it failed, the error that the peer sent, else the daemon's words; null where it was done.
    why: str | None
    #: Milliseconds that it took, where the daemon itself says so; null: as long as the command.
    ms: float | None = None


@dataclass(frozen=True, slots=True)
class DaemonIkeSa:
    """One IKE SA, as a daemon lists it."""

    #: 16 hex digits each; null where the daemon does not know it yet.
    spi_i: str | None
    spi_r: str | None
    #: Whether both sides have authenticated.
    established: bool
    #: The inbound SPIs of the CHILD_SAs that are in use.
    children: Sequence[str]

    @property
    def name(self) -> str:
        """What tells it from other IKE SAs, and from CHILD_SAs."""
        return f"{self.spi_i} {self.spi_r}"


class IkeDaemon(Protocol):
    """A running IKE daemon that has been told all that it needs."""

    @property
    def daemon(self) -> Daemon:
        """Its process."""
        ...

    @property
    def log(self) -> Path:
        """Its log, with keys where the daemon writes them."""
        ...

    def list_ike_sas(self) -> list[DaemonIkeSa]:
        """Its IKE SAs, half-open ones included; the youngest is the last."""
        ...

    def initiate(self) -> CommandResult:
        """Set an IKE SA and its CHILD_SA up; done: both are there."""
        ...

    def initiate_async(self) -> CommandResult:
        """Begin to set an IKE SA up, waiting for nothing."""
        ...

    def rekey(self, what: str) -> CommandResult:
        """Begin to rekey: "child", "ike", or "reauth" for the IKE SA made anew."""
        ...

    def terminate(self, seconds: float | None = None) -> CommandResult:
        """End the IKE SA, waiting for the peer so long at most; None: as long as a handshake may take."""
        ...

    def terminate_all(self) -> None:
        """End all IKE SAs at once, waiting for nobody."""
        ...
