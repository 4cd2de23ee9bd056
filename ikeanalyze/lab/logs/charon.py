"""Parses charon's log: sent datagrams and IKE SAs, independently of the capture, for comparison."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_GENERATED: Final = re.compile(r"generating ([A-Z0-9_]+) (request|response) (\d+) \[ (?!EF\(|FRAG\()")
#: The number of the IKE SA that a line is about, after the connection's name if that is known.
_SA: Final = re.compile(r" <(?:[^|>]*\|)?(\d+)> ")
_SENT: Final = re.compile(r"\[NET\].* sending packet: from (\S+)\[(\d+)\] to (\S+)\[(\d+)\] \((\d+) bytes\)")
#: Of IKEv2, and of IKEv1.
_REQUEST_AGAIN: Final = re.compile(
    r"retransmit \d+ of request with message ID (\d+)|sending retransmit \d+ of request message ID (\d+)"
)
_RESPONSE_AGAIN: Final = re.compile(
    r"received retransmit of request with ID (\d+), retransmitting response"
    r"|sending retransmit \d+ of response message ID (\d+)"
)
_ESTABLISHED: Final = re.compile(r"IKE_SA \S+ (?:established|rekeyed) between")
#: An error of RFC 7296, 3.10.1, as charon names it when it gets one.
REFUSED: Final = re.compile(r"received ([A-Z0-9_]+) (?:notify error|error notify)")


@dataclass(frozen=True, slots=True)
class LoggedDatagram:
    """One datagram."""

    source: str
    source_port: int
    destination: str
    destination_port: int
    #: Of the IKE message or fragment, without UDP header and non-ESP marker.
    bytes: int


@dataclass(slots=True)
class DaemonLogSummary:
    """What a daemon logged."""

    sent: list[LoggedDatagram] = field(default_factory=list)
    #: Each message each time that it was sent, in order: "IKE_AUTH request 1".
    messages: list[str] = field(default_factory=list)
    requests_retransmitted: int = 0
    responses_retransmitted: int = 0
    #: Times that an IKE SA was established, those made by rekeying and reauthentication included.
    established: int = 0
    #: Error notifies that it got.
    refused: Counter[str] = field(default_factory=Counter)

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


def parse_charon_log(lines: Iterable[str]) -> DaemonLogSummary:
    """Parse the lines of a log (`filelog` with net, ike and enc of 1 or more)."""
    account = DaemonLogSummary()
    # which message an IKE SA's request or response of a message ID is; under "" the last one of any IKE SA, since a new one's
    # first message is generated in the name of the one that it takes the place of
    credentials: dict[tuple[str, str, str], str] = {}
    for line in lines:
        sa = about[1] if (about := _SA.search(line)) else ""
        if generated := _GENERATED.search(line):
            exchange, kind, number = generated.groups()
            message = credentials[sa, kind, number] = credentials["", kind, number] = f"{exchange} {kind} {number}"
            account.messages.append(message)
        elif sent := _SENT.search(line):
            source, port, destination, other, size = sent.groups()
            account.sent.append(LoggedDatagram(source, int(port), destination, int(other), int(size)))
        elif again := _REQUEST_AGAIN.search(line):
            number = again[1] or again[2]
            account.requests_retransmitted += 1
            account.messages.append(_again(credentials, sa, "request", number))
        elif again := _RESPONSE_AGAIN.search(line):
            number = again[1] or again[2]
            account.responses_retransmitted += 1
            account.messages.append(_again(credentials, sa, "response", number))
        elif _ESTABLISHED.search(line):
            account.established += 1
        elif refused := REFUSED.search(line):
            account.refused[refused[1]] += 1
    return account


def _again(credentials: Mapping[tuple[str, str, str], str], sa: str, kind: str, number: str) -> str:
    """Return the name of the retransmitted message."""
    return credentials.get((sa, kind, number)) or credentials.get(("", kind, number)) or f"? {kind} {number}"
