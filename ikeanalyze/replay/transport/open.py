"""Selects the transport to a target: TCP if requested, raw IP where raw sockets are allowed, otherwise UDP sockets."""

from importlib.util import find_spec

from ikeanalyze.io.suggestions import advise_install
from ikeanalyze.replay.transport.interface import PacketRecorder, PacketTransport
from ikeanalyze.replay.transport.target import Target
from ikeanalyze.replay.transport.tcp import TcpTransport
from ikeanalyze.replay.transport.udp import UdpTransport


def open_transport(
    target: Target, record: PacketRecorder, *, sockets_only: bool = False, tcp: bool = False
) -> tuple[PacketTransport, str | None]:
    """Open the best transport to a target; return it and why it is not layer 3, if so.

    Raises:
        TransportError: the target is not reachable from this machine.
    """
    if tcp:
        return TcpTransport(target, record), "TCP"
    if sockets_only:
        return UdpTransport(target, record), "requested"
    if find_spec("scapy") is None:
        return UdpTransport(target, record), f"scapy is not installed: {advise_install('scapy')}"
    # late: scapy is optional and slow to import
    from ikeanalyze.replay.transport.raw_ip import RawIpTransport

    try:
        return RawIpTransport(target, record), None
    except PermissionError:
        return UdpTransport(target, record), "no CAP_NET_RAW: run as root for layer 3"
    except OSError as error:
        return UdpTransport(target, record), f"layer 3 failed: {error.strerror or error}"
