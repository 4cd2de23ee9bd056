"""The hosts of a case and their links.

    initiator ── (NAT) ── path ── responder ── aaa path ── aaa

On the responder, the two links are interfaces named `ini-res` and `res-aaa`, and so is `ini-res` on the initiator, so
that a capture taken on either has one named interface per link. A path is a namespace without addresses that carries
frames (`emulation`). The hosts at its ends know each other's MAC address from the start: asking for it would cost the
first handshake a round trip.
"""

import sys
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, Protocol

from ikeanalyze.lab.network.namespaces import Netns, NetnsSandbox
from ikeanalyze.lab.scenario.case import ScenarioCase

#: The interfaces of initiator and responder: the links' names.
LINK: Final = "ini-res"
AAA_LINK: Final = "res-aaa"
#: The interface of the AAA server, and those of a path.
ETHERNET: Final = "eth0"
NEAR: Final = "near"
FAR: Final = "far"
#: Interfaces of the NAT.
_INSIDE: Final = "inside"
_OUTSIDE: Final = "outside"
#: The AAA server's address, and the responder's on its link.
AAA_ADDRESS: Final = "203.0.113.2"
CLIENT_ADDRESS: Final = "203.0.113.1"
#: Addresses protected by ESP, on each side's loopback interface.
INNER: Final = {"initiator": "10.1.0.1", "responder": "10.2.0.1"}

#: Minimum MTU for IPv6 (RFC 8200, section 5).
_IPV6_MTU: Final = 1280


class CaseAddresses(Protocol):
    """The addresses of a case's hosts."""

    @property
    def initiator_address(self) -> str:
        """The initiator's own address."""

    @property
    def responder_address(self) -> str:
        """The responder's."""

    @property
    def aaa_address(self) -> str | None:
        """The AAA server's; None: no AAA server."""

    @property
    def client_address(self) -> str | None:
        """The responder's address on the AAA link."""


@dataclass(frozen=True, slots=True)
class LabNetwork:
    """The connected hosts."""

    initiator: Netns
    responder: Netns
    path: Netns  # between initiator and responder
    aaa: Netns | None  # the AAA server and the path to it, with EAP
    aaa_path: Netns | None
    initiator_address: str
    responder_address: str
    aaa_address: str | None
    client_address: str | None  # the responder's address on the AAA link


def build_network(sandbox: NetnsSandbox, case: ScenarioCase) -> LabNetwork:
    """Create the hosts and links of a case."""
    six = case.settings.ip_version == 6
    initiator, responder, path = (sandbox.create_netns(name) for name in ("initiator", "responder", "path"))
    mtu = case.settings.link.mtu
    ours, theirs = ("2001:db8::1", "2001:db8::2") if six else ("192.0.2.1", "192.0.2.2")
    nat = sandbox.create_netns("nat") if case.settings.link.nat else None
    near = _HostInterface(nat, _OUTSIDE, ours) if nat else _HostInterface(initiator, LINK, ours)
    _connect(path, near, _HostInterface(responder, LINK, theirs), 64 if six else 24, mtu)
    if nat:
        ours = _insert_nat(nat, initiator, mtu)
    _disable_offload(initiator, LINK)
    for host in (initiator, responder):
        host.run("ip", "address", "add", f"{INNER[host.name]}/32", "dev", "lo")
    aaa = aaa_path = aaa_address = client = None
    links = [LINK]
    if case.eap:
        aaa, aaa_path = sandbox.create_netns("aaa"), sandbox.create_netns("aaa-path")
        aaa_address, client = AAA_ADDRESS, CLIENT_ADDRESS
        aaa_near, aaa_far = _HostInterface(responder, AAA_LINK, client), _HostInterface(aaa, ETHERNET, aaa_address)
        _connect(aaa_path, aaa_near, aaa_far, 24, case.settings.aaa_link.mtu)
        _disable_offload(aaa, ETHERNET)
        links.append(AAA_LINK)
    _disable_offload(responder, *links)
    return LabNetwork(initiator, responder, path, aaa, aaa_path, ours, theirs, aaa_address, client)


@dataclass(frozen=True, slots=True)
class _HostInterface:
    """A host's interface to a path."""

    host: Netns
    interface: str
    address: str

    @property
    def mac(self) -> str:
        """A locally administered MAC address made from the IP address, so that it is unique in a case."""
        return ":".join(f"{octet:02x}" for octet in (2, 0, *ip_address(self.address).packed[-4:]))


def _connect(path: Netns, near: _HostInterface, far: _HostInterface, prefix: int, mtu: int) -> None:
    """Connect two hosts to the ends of a path, with static neighbour entries."""
    _plug(path, NEAR, near, prefix, mtu)
    _plug(path, FAR, far, prefix, mtu)
    for end, opposite in ((near, far), (far, near)):
        neighbour = f"{opposite.address} lladdr {opposite.mac} dev {end.interface} nud permanent"
        end.host.run("ip", "neigh", "replace", *neighbour.split())


def _insert_nat(nat: Netns, initiator: Netns, mtu: int) -> str:
    """Put a NAT between initiator and path; return the initiator's private address."""
    ours, gateway = "198.51.100.2", "198.51.100.1"
    _plug(nat, _INSIDE, _HostInterface(initiator, LINK, ours), 24, mtu)
    _set_address(nat, _INSIDE, f"{gateway}/24")
    initiator.run("ip", "route", "add", "default", "via", gateway)
    nat.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
    rules = (
        "add table ip nat\n"
        "add chain ip nat out { type nat hook postrouting priority 100; }\n"
        f"add rule ip nat out oifname {_OUTSIDE} udp sport 1-65535 masquerade to :20000-60000 random\n"
    )
    nat.run("nft", "-f", "-", stdin=rules)
    _disable_offload(nat, _INSIDE, _OUTSIDE)
    return ours


def _plug(path: Netns, name: str, end: _HostInterface, prefix: int, mtu: int) -> None:
    """Connect a host to the interface `name` of a path."""
    pair = f"{name} mtu {mtu} type veth peer name {end.interface} address {end.mac} mtu {mtu}"
    path.run("ip", "link", "add", *pair.split())
    path.run("ip", "link", "set", end.interface, "netns", str(end.host.keeper))
    if mtu >= _IPV6_MTU:  # a path must not send frames itself
        path.run("sysctl", "-qw", f"net.ipv6.conf.{name}.disable_ipv6=1")
    path.run("ip", "link", "set", name, "up")
    _set_address(end.host, end.interface, f"{end.address}/{prefix}")


def _set_address(host: Netns, interface: str, address: str) -> None:
    host.run("ip", "address", "add", address, "dev", interface, *(("nodad",) if ":" in address else ()))
    host.run("ip", "link", "set", interface, "up")


def _disable_offload(host: Netns, *interfaces: str) -> None:
    host.run(sys.executable, "-m", "ikeanalyze.lab.network.offload", *interfaces)
