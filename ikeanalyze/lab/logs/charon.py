"""Parses charon's log: sent datagrams and IKE SAs, independently of the capture, for comparison."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from ikeanalyze.lab.logs.summary import DaemonLogSummary, LoggedDatagram

_GENERATED: Final = re.compile(r"generating ([A-Z0-9_]+) (request|response) (\d+) \[ (?!EF\(|FRAG\()")
#: The number of the IKE SA that a line is about, after the connection's name if that is known.
_SA: Final = re.compile(r" <(?:[^|>]*\|)?(\d+)> ")
#: The number of the thread, before the subsystem.
_THREAD: Final = re.compile(r"\b(\d+)\[[A-Z]{3}\] ")
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
    names = _MessageNames()
    for line in lines:
        sa = match[1] if (match := _SA.search(line)) else ""
        thread = match[1] if (match := _THREAD.search(line)) else ""
        if generated := _GENERATED.search(line):
            exchange, kind, number = generated.groups()
            summary.messages.append(f"{exchange} {kind} {number}")
            names.add(thread, sa, kind, number, summary.messages[-1])
        elif sent := _SENT.search(line):
            source, port, destination, other, size = sent.groups()
            summary.sent.append(LoggedDatagram(source, int(port), destination, int(other), int(size)))
            if again := names.note_sent(thread, int(size)):
                summary.messages[again.place] = names.find(again, int(size))
        elif found := _REQUEST_AGAIN.search(line):
            summary.requests_retransmitted += 1
            again = names.await_sent(thread, sa, "request", found[1] or found[2], len(summary.messages))
            summary.messages.append(names.find(again, None))
        elif found := _RESPONSE_AGAIN.search(line):
            summary.responses_retransmitted += 1
            again = names.await_sent(thread, sa, "response", found[1] or found[2], len(summary.messages))
            summary.messages.append(names.find(again, None))
        elif _ESTABLISHED.search(line):
            summary.established += 1
        elif refused := REFUSED.search(line):
            summary.refused[refused[1]] += 1
    return summary


class _Retransmission(NamedTuple):
    """A retransmission that a thread is about to send."""

    sa: str
    kind: str  # "request" or "response"
    number: str  # message ID
    place: int  # in the list of messages


class _Generated(NamedTuple):
    """A message that a thread is about to send."""

    sa: str
    kind: str
    number: str
    name: str


class _MessageNames:
    """The names of the messages, to find that of a retransmission, of which charon logs the message ID alone.

    charon logs messages of an IKE SA that replaces another one, or loses against another replacement, under the number
    of the replaced one while it is busy with that. Each IKE SA has its own message IDs, so that number and message ID
    do not always tell a message; the size of its first datagram, which charon logs in the same thread, then does.
    """

    def __init__(self) -> None:
        self._about_to_send: dict[str, _Generated | _Retransmission] = {}  # by thread
        # the latest message with this key, of one IKE SA and of any
        self._of_sa: dict[tuple[str, str, str, int | None], str] = {}
        self._of_any: dict[tuple[str, str, int | None], str] = {}

    def add(self, thread: str, sa: str, kind: str, number: str, name: str) -> None:
        """Add a message that a thread has generated."""
        generated = _Generated(sa, kind, number, name)
        self._about_to_send[thread] = generated
        self._put(generated, None)

    def await_sent(self, thread: str, sa: str, kind: str, number: str, place: int) -> _Retransmission:
        """Note that a thread is about to send a message again."""
        again = self._about_to_send[thread] = _Retransmission(sa, kind, number, place)
        return again

    def note_sent(self, thread: str, size: int) -> _Retransmission | None:
        """Note the size of the first datagram of a message; returns the retransmission that it is of, if it is one."""
        sent = self._about_to_send.pop(thread, None)
        if isinstance(sent, _Generated):
            self._put(sent, size)
            return None
        return sent

    def find(self, again: _Retransmission, size: int | None) -> str:
        """The name of the message that is sent again, in a first datagram of this size if it is known."""
        sa, kind, number, _ = again
        for of_size in dict.fromkeys((size, None)):
            name = self._of_sa.get((sa, kind, number, of_size)) or self._of_any.get((kind, number, of_size))
            if name is not None:
                return name
        return f"? {kind} {number}"

    def _put(self, message: _Generated, size: int | None) -> None:
        self._of_sa[message.sa, message.kind, message.number, size] = message.name
        self._of_any[message.kind, message.number, size] = message.name
