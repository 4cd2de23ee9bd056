"""Parses iked's log: sent datagrams, IKE SAs, and the progress of a handshake."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ikeanalyze.lab.logs.summary import DaemonLogSummary, LoggedDatagram

_KINDS: Final = {"req": "request", "res": "response"}
_ADDRESS: Final = r"\[?([0-9a-f.:]+?)\]?:(\d+)"
#: A line for each datagram, so several for a fragmented message (RFC 7383). The size is without non-ESP marker.
_SENT: Final = re.compile(rf"send (\w+) (req|res) (\d+) peer {_ADDRESS} local {_ADDRESS}, (\d+) bytes")
_RECEIVED: Final = re.compile(r"recv (\w+) (?:req|res) \d+ peer ")
#: One line for all datagrams of a message.
_AGAIN: Final = re.compile(r"retransmit (?:\d+ )?(\w+) (req|res) (?:req )?(\d+) (?:peer|local) ")
_ESTABLISHED: Final = ": established peer "
_CHILD: Final = "ikev2_childsa_enable: loaded SPIs: "
_FREED: Final = re.compile(r": sa_free: (.*)")
#: The kernel, or its stand-in, does not take a key.
_PF_KEY: Final = re.compile(r"pfkey_\w+: ((?:unsupported|unknown|no reply|failed).*)")
#: Why an IKE SA is removed: by a received notify (RFC 7296, section 3.10.1), or in the words for other daemons.
_NOTIFIES: Final = {
    "authentication failed notification from peer": "AUTHENTICATION_FAILED",
    "no proposal chosen": "NO_PROPOSAL_CHOSEN",
}
_REASONS: Final = {**_NOTIFIES, "retransmit limit reached": "no answer"}


@dataclass(slots=True)
class IkedHandshakeProgress:
    """How far a handshake has come, by the log."""

    begun: bool = False  # whether the first request was sent
    established: bool = False
    child: bool = False  # whether its Child SA was established too
    failed: bool = False
    why: str | None = None  # the peer's error, or that of iked
    received: str | None = None  # exchange of the last datagram received, if none was sent after it

    @property
    def problem(self) -> str:
        """Why the handshake has not succeeded until now."""
        if self.why:
            return self.why
        return f"stopped at the {self.received} response" if self.received else "no answer"


def read_handshake_progress(lines: Iterable[str]) -> IkedHandshakeProgress:
    """Return the progress of a handshake from the lines since it began."""
    state = IkedHandshakeProgress()
    for line in lines:
        if _SENT.search(line):
            state.begun, state.received = True, None
        elif received := _RECEIVED.search(line):
            state.received = received[1]
        elif _CHILD in line:
            state.child = True
        elif _ESTABLISHED in line:
            state.established = True
        elif refused := _PF_KEY.search(line):
            state.failed = True
            state.why = state.why or f"no CHILD_SA: {refused[1]}"
        elif freed := _FREED.search(line):
            state.failed = True
            state.why = state.why or _REASONS.get(freed[1], freed[1])
    return state


def parse_iked_log(lines: Iterable[str]) -> DaemonLogSummary:
    """Parse the lines of a log."""
    summary = DaemonLogSummary()
    datagrams: dict[str, list[LoggedDatagram]] = {}  # of each message's latest transmission, by its name
    unfinished: str | None = None  # the message of the previous line: the next may be its next fragment
    for line in lines:
        if sent := _SENT.search(line):
            exchange, kind, number, peer, peer_port, local, local_port, size = sent.groups()
            name = f"{exchange} {_KINDS[kind]} {number}"
            if name != unfinished:
                summary.messages.append(name)
                datagrams[name] = []
            datagrams[name].append(LoggedDatagram(local, int(local_port), peer, int(peer_port), int(size)))
            summary.sent.append(datagrams[name][-1])
            unfinished = name
            continue
        unfinished = None
        if again := _AGAIN.search(line):
            name = f"{again[1]} {_KINDS[again[2]]} {again[3]}"
            summary.messages.append(name)
            summary.sent += datagrams.get(name, [])
            if again[2] == "req":
                summary.requests_retransmitted += 1
            else:
                summary.responses_retransmitted += 1
        elif _ESTABLISHED in line:
            summary.established += 1
        elif (freed := _FREED.search(line)) and freed[1] in _NOTIFIES:
            summary.refused[_NOTIFIES[freed[1]]] += 1
    return summary
