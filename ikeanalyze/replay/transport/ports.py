"""Our two UDP ports: bound, so that no other program uses them, and read for network errors."""

import errno
import os
import socket
import struct
import time
from contextlib import suppress
from ipaddress import ip_address
from typing import Final

from ikeanalyze.replay.transport.interface import LocalEndpoint, ReceivedPayload, TransportCounts, TransportError
from ikeanalyze.replay.transport.target import IKE_PORT, NAT_PORT, Role, Target

#: Linux: <linux/in.h>, <linux/in6.h>, <asm-generic/socket.h>. Not in the socket module.
_IP_RECVERR: Final = 11
_IP_RECVTTL: Final = 12
_IPV6_RECVERR: Final = 25
_SO_TIMESTAMPNS: Final = getattr(socket, "SO_TIMESTAMPNS", 35)
_MSG_ERRQUEUE: Final = 0x2000
_TIMESPEC: Final = struct.Struct("@qq")
_INT: Final = struct.Struct("@i")
_TTL_OPTIONS: Final = ((socket.IPPROTO_IP, socket.IP_TTL), (socket.IPPROTO_IPV6, socket.IPV6_HOPLIMIT))
_ANCILLARY: Final = 256
_BUFFER: Final = 1 << 20
_ERRORS_READ: Final = 16


class UdpPorts:
    """Two bound sockets, by the role of the target's port."""

    def __init__(self, target: Target) -> None:
        """Bind 500 and 4500 where that is possible, otherwise free ports.

        Never bind 500 for a target port with the non-ESP marker: charon expects a marker only if neither port is 500.

        Raises:
            TransportError: the target is not reachable, or no port is available.
        """
        self.target = target
        self.address, self._target_address, self._scope_id = _find_route(target)
        self.sockets: dict[Role, socket.socket] = {}
        try:
            ike_port = 0 if target.has_non_esp_marker(500) else IKE_PORT
            self.sockets[500] = _bind_socket(target, self.address, ike_port)
            self.sockets[4500] = _bind_socket(target, self.address, NAT_PORT)
        except OSError as error:
            self.close()
            raise TransportError(f"no UDP port available on {self.address}: {error.strerror}") from None

    @property
    def local(self) -> LocalEndpoint:
        """Our address and ports."""
        ike_port, nat_port = (int(sock.getsockname()[1]) for sock in (self.sockets[500], self.sockets[4500]))
        return LocalEndpoint(self.address, ip_address(self.address.partition("%")[0]).packed, ike_port, nat_port)

    def get_remote_address(self, role: Role) -> tuple[str, int] | tuple[str, int, int, int]:
        """Return the socket address of the target's port with that role, for IPv6 with flow label and scope ID."""
        address, port = self._target_address, self.target.port_of(role)
        return (address, port, 0, self._scope_id) if ":" in address else (address, port)

    def receive(self, role: Role, counts: TransportCounts) -> ReceivedPayload | None:
        """Return the next datagram of a port without waiting, and count network errors."""
        try:
            payload, ancillary, _, sender = self.sockets[role].recvmsg(65_535, _ANCILLARY)
        except BlockingIOError:
            return None
        except OSError as error:
            self.count_error(role, error, counts)
            return None
        time_ns, ttl = _parse_ancillary(ancillary)
        return ReceivedPayload(time_ns, payload, str(sender[0]).partition("%")[0], int(sender[1]), ttl)

    def count_error(self, role: Role, error: OSError, counts: TransportCounts) -> None:
        """Count a network error of a socket."""
        counts.refusals[role] += 1
        counts.refusal = counts.refusal or os.strerror(error.errno or 0)
        # the error queue would report the error again
        for _ in range(_ERRORS_READ):
            try:
                self.sockets[role].recvmsg(1, _ANCILLARY, _MSG_ERRQUEUE)
            except OSError:
                break

    def close(self) -> None:
        """Close the sockets."""
        for sock in self.sockets.values():
            sock.close()


def _find_route(target: Target) -> tuple[str, str, int]:
    """Return our address for the target (ADDRESS%INTERFACE if it is link-local), the target's address and scope ID."""
    with socket.socket(target.family, socket.SOCK_DGRAM) as probe:
        try:
            remote_address = socket.getaddrinfo(target.address, target.port, target.family, socket.SOCK_DGRAM)[0][4]
            probe.connect(remote_address)
        except PermissionError:
            # Linux: broadcast addresses and routes of the type prohibit
            raise TransportError(f"{target}: not reachable: broadcast address or prohibited route") from None
        except OSError as error:
            raise TransportError(f"{target}: not reachable: {error.strerror}. Is its network up?") from None
        local_address = probe.getsockname()
    scope_id = int(remote_address[3]) if len(remote_address) == 4 else 0
    local, target_host = (str(address[0]).partition("%")[0] for address in (local_address, remote_address))
    return (f"{local}%{socket.if_indextoname(scope_id)}" if scope_id else local), target_host, scope_id


def _bind_socket(target: Target, address: str, port: int) -> socket.socket:
    sock = socket.socket(target.family, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        if target.family == socket.AF_INET:
            sock.setsockopt(socket.IPPROTO_IP, _IP_RECVERR, 1)
            sock.setsockopt(socket.IPPROTO_IP, _IP_RECVTTL, 1)
        else:
            sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_RECVERR, 1)
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
        # on the target's own address, do not use its ports even if they are free
        is_target_port = address == target.address and port in (target.port, target.nat_port)
        for candidate in (0,) if is_target_port else (port, 0):
            try:
                sock.bind(socket.getaddrinfo(address, candidate, target.family, socket.SOCK_DGRAM)[0][4])
                break
            except OSError as error:
                # in use or not permitted: use any other port
                if not candidate or error.errno not in (errno.EADDRINUSE, errno.EACCES, errno.EPERM):
                    raise
    except BaseException:
        sock.close()
        raise
    return sock


def _parse_ancillary(ancillary: list[tuple[int, int, bytes]]) -> tuple[int, int | None]:
    """Return time and TTL of a datagram."""
    time_ns, ttl = None, None
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(data) >= _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack_from(data)
            time_ns = seconds * 1_000_000_000 + nanoseconds
        elif (level, kind) in _TTL_OPTIONS and len(data) >= _INT.size:
            ttl = _INT.unpack_from(data)[0]
    return time.time_ns() if time_ns is None else time_ns, ttl
