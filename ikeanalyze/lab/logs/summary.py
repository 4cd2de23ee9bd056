"""What a daemon's log reports as sent."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class LoggedDatagram:
    """One datagram."""

    source: str
    source_port: int
    destination: str
    destination_port: int
    bytes: int  # of the IKE message or fragment, without UDP header and non-ESP marker


@dataclass(slots=True)
class DaemonLogSummary:
    """What a daemon logged."""

    sent: list[LoggedDatagram] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)  # each transmission in order, such as "IKE_AUTH request 1"
    requests_retransmitted: int = 0
    responses_retransmitted: int = 0
    established: int = 0  # IKE SAs, including those of rekeying and reauthentication
    refused: Counter[str] = field(default_factory=Counter)  # error notifies received

    def document(self) -> dict[str, Any]:
        """Return the summary for the manifest."""
        return {
            "datagrams": len(self.sent),
            "bytes": sum(datagram.bytes for datagram in self.sent),
            "sizes": [datagram.bytes for datagram in self.sent],
            "messages": self.messages,
            "requests_retransmitted": self.requests_retransmitted,
            "responses_retransmitted": self.responses_retransmitted,
            "established": self.established,
            "refused": dict(self.refused),
        }
