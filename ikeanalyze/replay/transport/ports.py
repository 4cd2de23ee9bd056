"""Our two UDP ports: bound, so that nobody else answers there, and listening to what the network says went wrong."""

import errno
import os
import socket
import struct
import time
from contextlib import suppress
from ipaddress import ip_address
from typing import Final

from ikeanalyze.replay.transport.interface import LocalEndpoint, Received, TransportCounts, TransportError
from ikeanalyze.replay.transport.target import IKE_PORT, NAT_PORT, Role, Target

#: Linux: <linux/in.h>, <linux/in6.h>, <asm-generic/socket.h>. The socket module does not name them.
_IP_RECVERR: Final = 11
_IP_RECVTTL: Final = 12
_IPV6_RECVERR: Final = 25
_SO_TIMESTAMPNS: Final = getattr(socket, "SO_TIMESTAMPNS", 35)
_MSG_ERRQUEUE: Final = 0x2000
_TIMESPEC: Final = struct.Struct("@qq")
_INT: Final = struct.Struct("@i")
_ANCILLARY: Final = 256
_BUFFER: Final = 1 << 20
_ERRORS_READ: Final = 16


class UdpPorts:
    """Two bound sockets, by the role of the target's port that each talks to."""

    def __init__(self, target: Target) -> None:
        """Bind 500 and 4500 where that is possible, else ports that are free.

        Never 500 for talking to a port with the non-ESP marker: charon looks for a marker only if neither port is 500.

        Raises:
            TransportError: there is no route to the target.
        """
        self.target = target
        self.address, self._where = _route(target)
        self.sockets: dict[Role, socket.socket] = {}
        try:
            plain = 0 if target.has_non_esp_marker(500) else IKE_PORT
            self.sockets[500] = _bound(target, self.address, plain)
            self.sockets[4500] = _bound(target, self.address, NAT_PORT)
        except OSError as error:
            self.close()
            raise TransportError(f"no UDP port could be had on {self.address}: {error.strerror}") from None

    @property
    def local(self) -> LocalEndpoint:
        """Their addresses."""
        plain, nat = (int(opened.getsockname()[1]) for opened in (self.sockets[500], self.sockets[4500]))
        return LocalEndpoint(self.address, ip_address(self.address.partition("%")[0]).packed, plain, nat)

    def remote(self, role: Role) -> tuple[str, int] | tuple[str, int, int, int]:
        """The target's socket address with that role."""
        port = self.target.port_of(role)
        address, zone = self._where
        return (address, port, 0, zone) if ":" in address else (address, port)

    def receive(self, role: Role, counts: TransportCounts) -> Received | None:
        """What one of them has, without waiting; errors of the network are counted."""
        try:
            payload, ancillary, _, where = self.sockets[role].recvmsg(65_535, _ANCILLARY)
        except BlockingIOError:
            return None
        except OSError as error:
            self.note(role, error, counts)
            return None
        time_ns, ttl = _told(ancillary)
        return Received(time_ns, payload, str(where[0]).partition("%")[0], int(where[1]), ttl)

    def note(self, role: Role, error: OSError, counts: TransportCounts) -> None:
        """Count what the system says when it cannot send or receive."""
        counts.refusals[role] += 1
        counts.refusal = counts.refusal or os.strerror(error.errno or 0)
        # what told the error stays queued, and would be told again and again
        for _ in range(_ERRORS_READ):
            try:
                self.sockets[role].recvmsg(1, _ANCILLARY, _MSG_ERRQUEUE)
            except OSError:
                break

    def close(self) -> None:
        """Give the ports back."""
        for opened in self.sockets.values():
            opened.close()


def _route(target: Target) -> tuple[str, tuple[str, int]]:
    """Our address for talking to a target, with its zone, and the target's address and zone as the system has them."""
    with socket.socket(target.family, socket.SOCK_DGRAM) as probe:
        try:
            where = socket.getaddrinfo(target.address, target.port, target.family, socket.SOCK_DGRAM)[0][4]
            probe.connect(where)
        except PermissionError:
            # what Linux says of broadcasts, and of routes of the type prohibit
            raise TransportError(
                f"{target}: no way there: it is a broadcast address, or a route prohibits it"
            ) from None
        except OSError as error:
            raise TransportError(f"{target}: no way there: {error.strerror}. Is its network up?") from None
        ours = str(probe.getsockname()[0])
    zone = int(where[3]) if len(where) == 4 else 0
    plain, theirs = (text.partition("%")[0] for text in (ours, str(where[0])))
    return (f"{plain}%{socket.if_indextoname(zone)}" if zone else plain), (theirs, zone)


def _bound(target: Target, address: str, port: int) -> socket.socket:
    opened = socket.socket(target.family, socket.SOCK_DGRAM)
    try:
        opened.setblocking(False)
        with suppress(OSError):
            opened.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        if target.family == socket.AF_INET:
            opened.setsockopt(socket.IPPROTO_IP, _IP_RECVERR, 1)
            opened.setsockopt(socket.IPPROTO_IP, _IP_RECVTTL, 1)
        else:
            opened.setsockopt(socket.IPPROTO_IPV6, _IPV6_RECVERR, 1)
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
        # on the target's own address its ports are not for us, even if nobody listens there
        its_own = address == target.address and port in (target.port, target.nat_port)
        for wanted in (0,) if its_own else (port, 0):
            try:
                opened.bind(socket.getaddrinfo(address, wanted, target.family, socket.SOCK_DGRAM)[0][4])
                break
            except OSError as error:
                # another program has it, or we may not; any other port will do as well
                if not wanted or error.errno not in (errno.EADDRINUSE, errno.EACCES, errno.EPERM):
                    raise
    except BaseException:
        opened.close()
        raise
    return opened


def _told(ancillary: list[tuple[int, int, bytes]]) -> tuple[int, int | None]:
    """Time of a datagram, and its TTL."""
    time_ns, ttl = None, None
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(data) >= _TIMESPEC.size:
            seconds, rest = _TIMESPEC.unpack_from(data)
            time_ns = seconds * 1_000_000_000 + rest
        elif (level, kind) in (
            (socket.IPPROTO_IP, socket.IP_TTL),
            (socket.IPPROTO_IPV6, socket.IPV6_HOPLIMIT),
        ) and len(data) >= _INT.size:
            ttl = _INT.unpack_from(data)[0]
    return time.time_ns() if time_ns is None else time_ns, ttl
