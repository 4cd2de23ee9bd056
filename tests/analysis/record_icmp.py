"""Records the captures icmp-ipv4.pcap and icmp-ipv6.pcap: `python -m tests.analysis.record_icmp`, as root.

Three network namespaces: an initiator, a router and a responder. Messages of recorded handshakes are sent again, with
other SPIs; the ICMP errors are those of the kernel. The capture point is the initiator. The handshakes, which
`HANDSHAKES` lists with the byte that their SPIs repeat:

1. The responder's port is closed.
2. The router has a route of the type `prohibit`, and
3. one of the type `unreachable`.
4. IKE_SA_INIT is answered; the first IKE fragment of IKE_INTERMEDIATE exceeds the MTU behind the router. The initiator
   ignores the path MTU and sends all with "don't fragment".
5. The second IP fragment of the request never arrives.
6. The port is closed for the first request only. Then the handshake is completed.
"""

import ctypes
import socket
import struct
import subprocess
import sys
import time
from ipaddress import ip_address

from tests.analysis.wrapped_captures import read_packets
from tests.craft import ipv4, ipv6
from tests.craft.ip import ip_fragments
from tests.paths import CAPTURES, DATA

HANDSHAKES = ("port-unreachable", "admin-prohibited", "host-unreachable", "packet-too-big", "reassembly-timeout", None)
MARKER = bytes(4)
ADDRESSES = {
    4: ("198.51.100.1", "203.0.113.", ("2", "66", "77", "2", "2", "2")),
    6: ("2001:db8:1::1", "2001:db8:2::", ("2", "66", "77", "2", "2", "2")),
}
#: IP packets of the large messages have this size, and the link behind the router this MTU.
LARGE_BYTES, MTU = 1450, {4: 1000, 6: 1280}
#: Options of <linux/in.h> and <linux/in6.h> that Python lacks: send with "don't fragment", and ignore the path MTU.
IP_MTU_DISCOVER, IPV6_MTU_DISCOVER, PROBE = 10, 23, 3
INITIATOR, ROUTER, RESPONDER = "icmp-initiator", "icmp-router", "icmp-responder"


def run(*command: str) -> None:
    subprocess.run(command, check=True)


def inside(name: str, *command: str) -> None:
    run("ip", "netns", "exec", name, *command)


def build() -> None:
    for name in (INITIATOR, ROUTER, RESPONDER):
        run("ip", "netns", "add", name)
        inside(name, "ip", "link", "set", "lo", "up")
        for setting in ("net.ipv4.icmp_ratelimit=0", "net.ipv4.icmp_msgs_per_sec=10000", "net.ipv6.icmp.ratelimit=0"):
            inside(name, "sysctl", "-q", "-w", setting)
    for number, end in ((1, INITIATOR), (2, RESPONDER)):
        run("ip", "link", "add", "eth0", "netns", end, "type", "veth", "peer", "name", f"eth{number}", "netns", ROUTER)
    for end, device, v4, v6 in (
        (INITIATOR, "eth0", "198.51.100.1/24", "2001:db8:1::1/64"),
        (ROUTER, "eth1", "198.51.100.254/24", "2001:db8:1::fe/64"),
        (ROUTER, "eth2", "203.0.113.254/24", "2001:db8:2::fe/64"),
        (RESPONDER, "eth0", "203.0.113.2/24", "2001:db8:2::2/64"),
    ):
        inside(end, "ip", "address", "add", v4, "dev", device)
        inside(end, "ip", "address", "add", v6, "dev", device, "nodad")
        inside(end, "ip", "link", "set", device, "up")
    for end, v4, v6 in (
        (INITIATOR, "198.51.100.254", "2001:db8:1::fe"),
        (RESPONDER, "203.0.113.254", "2001:db8:2::fe"),
    ):
        inside(end, "ip", "route", "add", "default", "via", v4)
        inside(end, "ip", "-6", "route", "add", "default", "via", v6)
    inside(ROUTER, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
    for family, prefix in (("-4", "203.0.113."), ("-6", "2001:db8:2::")):
        inside(ROUTER, "ip", family, "route", "add", "prohibit", f"{prefix}66")
        inside(ROUTER, "ip", family, "route", "add", "unreachable", f"{prefix}77")
    inside(RESPONDER, "sysctl", "-q", "-w", "net.ipv4.ipfrag_time=1", "net.ipv6.ip6frag_time=1")


def remove() -> None:
    for name in (INITIATOR, ROUTER, RESPONDER):
        subprocess.run(["ip", "netns", "delete", name], check=False)


def enter(name: str) -> None:
    with open(f"/run/netns/{name}") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0):
            raise OSError(ctypes.get_errno(), "setns")


def open_udp(namespace: str, version: int, address: str, port: int) -> socket.socket:
    enter(namespace)
    sock = socket.socket(socket.AF_INET if version == 4 else socket.AF_INET6, socket.SOCK_DGRAM)
    if version == 4:
        sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, PROBE)
    else:
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, PROBE)
    sock.settimeout(2)
    sock.bind((address, port))
    return sock


def read_messages(name: str, byte: int) -> list[bytes]:
    """The IKE messages of a recorded handshake, with SPIs that repeat a byte. No ICV is right any more."""
    messages = []
    for packet in read_packets(CAPTURES / name):
        at = 14 + 20
        if packet.data[23] != 17:
            continue
        port = struct.unpack(">H", packet.data[at + 2 : at + 4])[0]
        source = struct.unpack(">H", packet.data[at : at + 2])[0]
        data = packet.data[at + 8 + (4 if 4500 in (port, source) else 0) :]
        data = data[: struct.unpack(">I", data[24:28])[0]]
        spi_r = bytes([byte | 0x80]) * 8 if data[8:16] != bytes(8) else bytes(8)
        messages.append(bytes([byte]) * 8 + spi_r + data[16:])
    return messages


def enlarge(message: bytes, size: int) -> bytes:
    """A message whose last payload, which is encrypted, has more bytes."""
    data = message + bytes(size - len(message))
    payload = struct.pack(">H", size - 28)
    return data[:24] + struct.pack(">I", size) + data[28:30] + payload + data[32:]


def record(version: int) -> None:
    path = DATA / f"icmp-ipv{version}.pcap"
    path.unlink(missing_ok=True)
    initiator, prefix, hosts = ADDRESSES[version]
    targets = [prefix + host for host in hosts]
    others = "icmp" if version == 4 else "(icmp6 and ip6[40] < 128)"
    fragments = "(ip[6:2] & 0x1fff != 0)" if version == 4 else "ip6[6] == 44"
    dump = subprocess.Popen(
        ["ip", "netns", "exec", INITIATOR, "dumpcap", "-q", "-P", "-i", "eth0", "-w", path,
         "-f", f"udp or {others} or {fragments}"], stderr=subprocess.PIPE)  # fmt: skip
    time.sleep(2)
    sock = open_udp(INITIATOR, version, initiator, 500)
    natted = open_udp(INITIATOR, version, initiator, 4500)
    for number in (0, 1, 2):
        request = read_messages("psk-classic.pcap", number + 1)[0]
        for _ in range(3):
            sock.sendto(request, (targets[number], 500))
            time.sleep(0.4)

    inside(ROUTER, "ip", "link", "set", "eth2", "mtu", str(MTU[version]))
    peer, natted_peer = (open_udp(RESPONDER, version, targets[3], port) for port in (500, 4500))
    request, response, first, second, *_ = read_messages("pq-mlkem768-psk.pcap", 4)
    sock.sendto(request, (targets[3], 500))
    peer.recv(4096)
    peer.sendto(response, (initiator, 500))
    large = enlarge(first, LARGE_BYTES - (20 if version == 4 else 40) - 8 - 4)
    for _ in range(2):
        for message in (large, second):
            natted.sendto(MARKER + message, (targets[3], 4500))
        time.sleep(0.4)
    inside(ROUTER, "ip", "link", "set", "eth2", "mtu", "1500")
    peer.close()

    request = read_messages("psk-classic.pcap", 5)[0]
    udp = struct.pack(">HHHH", 500, 500, 8 + len(request), 0) + request
    enter(INITIATOR)
    raw = socket.socket(socket.AF_INET if version == 4 else socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)
    for ident in range(1, 4):
        whole = ipv4(udp, initiator, targets[4], ident=ident) if version == 4 else ipv6(udp, initiator, targets[4])
        raw.sendto(ip_fragments(whole, 200, ident)[0], (targets[4], 0))
        time.sleep(0.4)
    time.sleep(3)

    request, response, auth, accepted = read_messages("psk-classic.pcap", 6)[:4]
    sock.sendto(request, (targets[5], 500))
    time.sleep(0.4)
    peer = open_udp(RESPONDER, version, targets[5], 500)
    for message, answer, here, there, port, marker in (
        (request, response, sock, peer, 500, b""),
        (auth, accepted, natted, natted_peer, 4500, MARKER),
    ):
        here.sendto(marker + message, (targets[5], port))
        there.recv(4096)
        while there is natted_peer and there.recv(4096)[4:12] != message[:8]:
            pass
        there.sendto(marker + answer, (initiator, port))
    for one in (sock, natted, peer, natted_peer, raw):
        one.close()
    time.sleep(5)
    last = open_udp(INITIATOR, version, initiator, 5353)
    last.sendto(b"something else", (targets[0], 9))
    last.close()
    time.sleep(1)
    dump.terminate()
    print(dump.communicate()[1].decode())


def main() -> int:
    remove()
    build()
    try:
        for version in (6, 4):  # the small MTU of IPv4 would end IPv6 on the link
            assert ip_address(ADDRESSES[version][0]).version == version
            record(version)
    finally:
        remove()
    return 0


if __name__ == "__main__":
    sys.exit(main())
