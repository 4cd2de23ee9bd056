"""Parses pluto's log: sent datagrams, IKE SAs, and the progress of a handshake. Needs `plutodebug=base,private`.

pluto logs each message ("emit ISAKMP Message" with exchange, flags and message ID, then each fragment) before it sends
it. A datagram that is sent without a new message is a retransmission.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ikeanalyze.lab.logs.summary import DaemonLogSummary, LoggedDatagram

_EMIT: Final = re.compile(r"\| \*\*emit ISAKMP Message:")
_HEADER: Final = re.compile(r"\|    (exchange type|flags|Message ID): (?:ISAKMP_v2_)?(.+?) \(")
_PAYLOAD: Final = re.compile(r"\| \*\*\*emit ([\w ]+?)(?: Payload)?:")
_FRAGMENT: Final = "IKEv2 Encrypted Fragment"
_SENT: Final = re.compile(r"\| sending (\d+) bytes for (.*) through \S+ from (\S+):(\d+) to (\S+):(\d+) using UDP")
#: From any other port each message has the non-ESP marker (RFC 3948, section 2.2), which pluto counts.
_PLAIN_PORT: Final = "500"
_MARKER: Final = 4
#: Word in the reason of a retransmission.
_AGAIN: Final = "retransmit"
_KEYS: Final = re.compile(r"ikev2 I 0x([0-9a-f]{16}) 0x([0-9a-f]{16}) ")
_TIME: Final = re.compile(r"\w{3} +\d+ (\d\d):(\d\d):(\d\d\.\d{6}): ")
_BEGUN: Final = re.compile(r"#\d+: initiating IKEv2 connection")
_ESTABLISHED: Final = re.compile(r"#\d+: (?:initiator|responder) established IKE SA")
_CHILD: Final = re.compile(r"#\d+: (?:initiator|responder) established Child SA")
#: A received error notify (RFC 7296, section 3.10.1).
_REFUSED: Final = re.compile(
    r"(?:error notification|rejected Child SA with|rejected by peer:) ([A-Z][A-Z0-9_]+)"
    r"|containing ([A-Z0-9_]+) notification"
)
_FAILED: Final = re.compile(r"#\d+: deleting (?:larval )?IKE SA|#\d+: state transition .* failed")
#: Error of the kernel that prevents a Child SA.
_KERNEL: Final = re.compile(r"netlink response for Add SA \S+: (.*)")
_NO_CHILD: Final = re.compile(r"initiator rejected Child SA response")
_NOT_AUTHENTICATED: Final = re.compile(r"#\d+: authentication failed: ")
_PROBLEM: Final = re.compile(r'(?:addconn: .*(?:error|failed|invalid).*|FATAL ERROR: .*|"lab": failed .*)')


@dataclass(slots=True)
class PlutoHandshakeProgress:
    """How far a handshake has come, by the log."""

    established: bool = False
    child: bool = False  # whether its Child SA was established too
    failed: bool = False
    why: str | None = None  # the peer's error, or the kernel's
    ms: float | None = None  # from the command to the IKE SA, by the log's clock


@dataclass(slots=True)
class _EmittedMessage:
    """A message that pluto has built."""

    name: str  # "IKE_AUTH request 1", as in `DaemonLogSummary.messages`
    kind: str  # "request" or "response"
    fragments: int = 0  # number of fragments; 0: not fragmented
    sent: int = 0  # number of datagrams sent


def parse_pluto_log(lines: Iterable[str]) -> DaemonLogSummary:
    """Parse the lines of a log."""
    summary = DaemonLogSummary()
    header: dict[str, str] | None = None  # of the message that is being built
    last: dict[str, _EmittedMessage] = {}  # latest request and response: there is one exchange at a time
    newest: _EmittedMessage | None = None
    for line in lines:
        if _EMIT.search(line):
            header = {}
        elif header is not None and (field := _HEADER.search(line)):
            header[field[1]] = field[2]
        elif header is not None and (payload := _PAYLOAD.search(line)):
            kind = "response" if "MSG_RESPONSE" in header.get("flags", "") else "request"
            if payload[1] == _FRAGMENT:
                if kind in last:
                    last[kind].fragments += 1
            else:
                name = f"{header.get('exchange type', '?')} {kind} {header.get('Message ID', '?')}"
                last[kind] = newest = _EmittedMessage(name, kind)
            header = None
        elif sent := _SENT.search(line):
            size, why, source, port, destination, other = sent.groups()
            marker = 0 if port == _PLAIN_PORT else _MARKER
            summary.sent.append(LoggedDatagram(source, int(port), destination, int(other), int(size) - marker))
            retransmitted = last.get("response" if "responder" in why else "request")
            _count(summary, retransmitted if _AGAIN in why.lower() else newest)
        elif _ESTABLISHED.search(line):
            summary.established += 1
        elif refused := _REFUSED.search(line):
            summary.refused[refused[1] or refused[2]] += 1
    return summary


def _count(summary: DaemonLogSummary, message: _EmittedMessage | None) -> None:
    """Count a sent datagram of a message."""
    if message is None:
        return
    if message.sent % max(message.fragments, 1) == 0:
        summary.messages.append(message.name)
        if message.sent and message.kind == "request":
            summary.requests_retransmitted += 1
        elif message.sent:
            summary.responses_retransmitted += 1
    message.sent += 1


def find_spis(lines: Iterable[str]) -> tuple[str | None, str | None]:
    """Return the SPIs of the newest IKE SA, 16 hex digits each, or None."""
    matches = [match for line in lines if (match := _KEYS.search(line))]
    return (matches[-1][1], matches[-1][2]) if matches else (None, None)


def find_startup_error(lines: Iterable[str]) -> str | None:
    """Return why pluto does not start or refuses a connection."""
    return next((problem_line[0] for line in lines if (problem_line := _PROBLEM.search(line))), None)


def read_handshake_progress(lines: Iterable[str]) -> PlutoHandshakeProgress:
    """Return the progress of a handshake from the lines since it began."""
    state = PlutoHandshakeProgress()
    begun: float | None = None
    for line in lines:
        if _BEGUN.search(line):
            begun = _parse_seconds(line)
        elif refused := _REFUSED.search(line):
            state.why = state.why or refused[1] or refused[2]
        elif kernel := _KERNEL.search(line):
            state.why = state.why or f"no CHILD_SA: kernel error: {kernel[1]}"
        elif _NO_CHILD.search(line):
            state.why = state.why or "no CHILD_SA in the response"
        elif _NOT_AUTHENTICATED.search(line):
            state.why = state.why or "the peer's authentication failed"
        elif _ESTABLISHED.search(line):
            state.established = True
            now = _parse_seconds(line)
            if begun is not None and now is not None:
                state.ms = round((now - begun) % 86_400 * 1e3, 3)
        elif _CHILD.search(line):
            state.child = True
        elif _FAILED.search(line):
            state.failed = True
    return state


def _parse_seconds(line: str) -> float | None:
    """Return the time of day of a line."""
    clock = _TIME.match(line)
    return int(clock[1]) * 3600 + int(clock[2]) * 60 + float(clock[3]) if clock else None
