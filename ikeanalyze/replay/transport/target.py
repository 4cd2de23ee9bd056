"""Parses the target of a replay, and refuses addresses where a replay could disturb others.

By default only addresses that are not routed on the Internet are allowed: loopback, private and link-local ones, and
those of documentation and benchmarks, which testbeds use.
"""

import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final, Literal

#: The ports of IKE (RFC 7296, section 2), without and with the non-ESP marker (RFC 3948).
IKE_PORT: Final = 500
NAT_PORT: Final = 4500
#: The role of a port, named by the usual number, whatever number the target uses instead.
Role = Literal[500, 4500]

#: Networks that are not routed on the Internet: RFC 1122, 1918, 3927, 5737, 2544; RFC 4291, 4193, 3849, 5180.
_LOCAL_NETWORKS: Final = tuple(
    ip_network(text)
    for text in (
        *("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"),
        *("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "198.18.0.0/15"),
        *("::1/128", "fe80::/10", "fc00::/7", "2001:db8::/32", "2001:2::/48"),
    )
)

#: Metadata services of AWS, Azure, GCP and others, of AWS containers, of Alibaba, and of AWS over IPv6. Most look like
#: link-local or private addresses.
_METADATA_SERVICES: Final = frozenset(
    map(ip_address, ("169.254.169.254", "169.254.170.2", "100.100.100.200", "fd00:ec2::254"))
)


class TargetError(ValueError):
    """The target is invalid or not allowed; the text is one line with the problem and the remedy."""


@dataclass(frozen=True, slots=True)
class Target:
    """Address and ports of a responder."""

    address: str  # canonical text; a link-local IPv6 address as ADDRESS%INTERFACE
    port: int = IKE_PORT
    nat_port: int = NAT_PORT  # for messages with the non-ESP marker

    @property
    def family(self) -> socket.AddressFamily:
        """AF_INET or AF_INET6."""
        return socket.AF_INET6 if ":" in self.address else socket.AF_INET

    @property
    def packed(self) -> bytes:
        """The 4 or 16 bytes of the address."""
        return ip_address(self.address.partition("%")[0]).packed

    def port_of(self, role: Role) -> int:
        """Return the port with that role."""
        return self.nat_port if role == NAT_PORT else self.port

    def has_non_esp_marker(self, role: Role) -> bool:
        """Whether messages to and from the port with that role have the non-ESP marker (RFC 3948, 2.2).

        They always have it on port 4500, even if that is the target's port for messages without it.
        """
        return self.port_of(role) in (NAT_PORT, self.nat_port)

    def __str__(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


def parse_target(text: str, *, any_target: bool = False, nat_port: int = NAT_PORT) -> Target:
    """Parse ADDRESS, ADDRESS:PORT, IPV6 or [IPV6]:PORT.

    Args:
        text: as the user wrote it.
        any_target: allow public addresses.
        nat_port: the target's port for messages with the non-ESP marker.

    Raises:
        TargetError: not the address of a single host, or not allowed.
    """
    host, port = _split_host_and_port(text)
    try:
        address = ip_address(host)
    except ValueError:
        raise TargetError(f"{text!r} is not a target such as 192.0.2.1, 192.0.2.1:500 or [2001:db8::1]:500") from None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        raise TargetError(f"{text}: write it as IPv4: {address.ipv4_mapped}")
    if address.is_multicast or address.is_unspecified or address == IPv4Address("255.255.255.255"):
        raise TargetError(f"{text}: not the address of a single host")
    interface = isinstance(address, IPv6Address) and address.scope_id
    if isinstance(address, IPv6Address) and address.is_link_local and not interface:
        raise TargetError(f"{text}: a link-local address needs its interface: {address}%eth0")
    if address in _METADATA_SERVICES:
        raise TargetError(f"{text}: the metadata service of a cloud, which answers with credentials, is not a target")
    if _is_local_broadcast(address):
        raise TargetError(f"{text}: a broadcast address or prohibited route, not a single host that can be reached")
    if not any_target and isinstance(address, IPv4Address) and address.packed[-1] == 0xFF:
        raise TargetError(
            f"{text}: the broadcast address of most networks. If it is a single host, use --allow-public-target"
        )
    if interface and not address.is_link_local:
        raise TargetError(f"{text}: only a link-local address has an interface")
    if interface and interface not in (name for _, name in socket.if_nameindex()):
        raise TargetError(f"{text}: unknown interface {interface!r}")
    if not any_target and not any(address in network for network in _LOCAL_NETWORKS):
        problem = f"{address} is not a loopback, private or link-local address"
        raise TargetError(f"{problem}. If its owner agrees, use --allow-public-target")
    return Target(str(address), port, nat_port)


def _is_local_broadcast(address: IPv4Address | IPv6Address) -> bool:
    """Whether the kernel treats this as the broadcast address of a network of this machine."""
    if not isinstance(address, IPv4Address):
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((str(address), IKE_PORT))  # sends nothing
        except PermissionError:  # ip(7): a broadcast address, and SO_BROADCAST is not set
            return True
        except OSError:
            pass
    return False


def _split_host_and_port(text: str) -> tuple[str, int]:
    """Split the text of a target; without a port, the port is 500."""
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise TargetError(f"{text!r} is not a target; write IPv6 with a port as [2001:db8::1]:500")
        port = rest[1:] if rest else None
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    else:
        host, port = text, None
    if port is None:
        return host, IKE_PORT
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
        raise TargetError(f"{text}: {port!r} is not a port from 1 to 65535")
    return host, int(port)
