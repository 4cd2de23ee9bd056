"""Names of ICMP errors, which quote the packet that they are about.

RFC 792, RFC 1122, 3.2.2 and RFC 1812, 5.2.7 (ICMP), RFC 1191, 4 (next-hop MTU), RFC 4443, 3 (ICMPv6). Anyone can send
them: RFC 5927 describes forged ones, and the checks by which a receiver tells them apart.
"""

from enum import StrEnum
from typing import Final


class IcmpProblem(StrEnum):
    """What an ICMP error says about the packet that it quotes."""

    PORT = "port unreachable"
    TOO_BIG = "packet too big"
    PROHIBITED = "prohibited"
    UNREACHABLE = "unreachable"
    REASSEMBLY = "reassembly time exceeded"


_UNREACHABLE: Final = IcmpProblem.UNREACHABLE
#: Problem and name by type and code. Other codes of these types are a host that is unreachable.
_ICMP: Final[dict[tuple[int, int], tuple[IcmpProblem, str]]] = {
    (3, 0): (_UNREACHABLE, "network unreachable"),
    (3, 1): (_UNREACHABLE, "host unreachable"),
    (3, 2): (IcmpProblem.PORT, "protocol unreachable"),
    (3, 3): (IcmpProblem.PORT, "port unreachable"),
    (3, 4): (IcmpProblem.TOO_BIG, "fragmentation needed"),
    (3, 5): (_UNREACHABLE, "source route failed"),
    (3, 6): (_UNREACHABLE, "destination network unknown"),
    (3, 7): (_UNREACHABLE, "destination host unknown"),
    (3, 8): (_UNREACHABLE, "source host isolated"),
    (3, 9): (IcmpProblem.PROHIBITED, "network administratively prohibited"),
    (3, 10): (IcmpProblem.PROHIBITED, "host administratively prohibited"),
    (3, 11): (_UNREACHABLE, "network unreachable for type of service"),
    (3, 12): (_UNREACHABLE, "host unreachable for type of service"),
    (3, 13): (IcmpProblem.PROHIBITED, "communication administratively prohibited"),
    (3, 14): (IcmpProblem.PROHIBITED, "host precedence violation"),
    (3, 15): (IcmpProblem.PROHIBITED, "precedence cutoff in effect"),
    (11, 0): (_UNREACHABLE, "time to live exceeded in transit"),
    (11, 1): (IcmpProblem.REASSEMBLY, "fragment reassembly time exceeded"),
}
_ICMPV6: Final[dict[tuple[int, int], tuple[IcmpProblem, str]]] = {
    (1, 0): (_UNREACHABLE, "no route to destination"),
    (1, 1): (IcmpProblem.PROHIBITED, "communication administratively prohibited"),
    (1, 2): (_UNREACHABLE, "beyond scope of source address"),
    (1, 3): (_UNREACHABLE, "address unreachable"),
    (1, 4): (IcmpProblem.PORT, "port unreachable"),
    (1, 5): (IcmpProblem.PROHIBITED, "source address failed ingress/egress policy"),
    (1, 6): (IcmpProblem.PROHIBITED, "reject route to destination"),
    (2, 0): (IcmpProblem.TOO_BIG, "packet too big"),
    (3, 0): (_UNREACHABLE, "hop limit exceeded in transit"),
    (3, 1): (IcmpProblem.REASSEMBLY, "fragment reassembly time exceeded"),
}


def describe_icmp_error(kind: int, code: int, *, ipv6: bool) -> tuple[IcmpProblem, str]:
    """The problem and the name of an ICMP error: of destination unreachable, packet too big or time exceeded."""
    if ipv6 and kind == 2:
        code = 0  # RFC 4443, 3.2: the receiver ignores it
    names = _ICMPV6 if ipv6 else _ICMP
    return names.get((kind, code), (_UNREACHABLE, f"type {kind}, code {code}"))
