"""Parses charon's log: sent datagrams and IKE SAs, independently of the capture, for comparison."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from ikeanalyze.lab.logs.summary import DaemonLogSummary, LoggedDatagram

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
#: A received error notify (RFC 7296, section 3.10.1).
REFUSED: Final = re.compile(r"received ([A-Z0-9_]+) (?:notify error|error notify|notify, no CHILD_SA built)")


def parse_charon_log(lines: Iterable[str]) -> DaemonLogSummary:
    """Parse the lines of a log (`filelog` with net, ike and enc of 1 or more)."""
    summary = DaemonLogSummary()
    # by IKE SA, kind and message ID; under "" the latest of any IKE SA, because charon logs the first message of a new
    # IKE SA under the IKE SA that it replaces
    names: dict[tuple[str, str, str], str] = {}
    for line in lines:
        sa = match[1] if (match := _SA.search(line)) else ""
        if generated := _GENERATED.search(line):
            exchange, kind, number = generated.groups()
            names[sa, kind, number] = names["", kind, number] = f"{exchange} {kind} {number}"
            summary.messages.append(names[sa, kind, number])
        elif sent := _SENT.search(line):
            source, port, destination, other, size = sent.groups()
            summary.sent.append(LoggedDatagram(source, int(port), destination, int(other), int(size)))
        elif again := _REQUEST_AGAIN.search(line):
            summary.requests_retransmitted += 1
            summary.messages.append(_find_name(names, sa, "request", again[1] or again[2]))
        elif again := _RESPONSE_AGAIN.search(line):
            summary.responses_retransmitted += 1
            summary.messages.append(_find_name(names, sa, "response", again[1] or again[2]))
        elif _ESTABLISHED.search(line):
            summary.established += 1
        elif refused := REFUSED.search(line):
            summary.refused[refused[1]] += 1
    return summary


def _find_name(names: Mapping[tuple[str, str, str], str], sa: str, kind: str, number: str) -> str:
    """Return the name of a retransmitted message."""
    return names.get((sa, kind, number)) or names.get(("", kind, number)) or f"? {kind} {number}"
