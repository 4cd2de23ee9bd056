"""The choice of the way to a target: layer 3 where raw sockets are allowed, else ordinary UDP sockets."""

from importlib.util import find_spec

from ikeanalyze.replay.transport.interface import PacketTransport, Record
from ikeanalyze.replay.transport.target import Target
from ikeanalyze.replay.transport.udp import UdpTransport


def open_transport(target: Target, record: Record, *, sockets_only: bool = False) -> tuple[PacketTransport, str | None]:
    """The best way to a target, and why it is not layer 3 where it is not.

    Raises:
        TransportError: the target cannot be reached from this machine at all.
    """
    if sockets_only:
        return UdpTransport(target, record), "asked for"
    if find_spec("scapy") is None:
        return UdpTransport(target, record), "scapy is not installed: pip install 'ikeanalyze[replay]'"
    # here, because scapy is optional, and slow to import
    from ikeanalyze.replay.transport.raw_ip import RawIpTransport

    try:
        return RawIpTransport(target, record), None
    except PermissionError:
        return UdpTransport(target, record), "no CAP_NET_RAW: run it as root for layer 3"
    except OSError as error:
        return UdpTransport(target, record), f"layer 3 does not work here: {error.strerror or error}"
