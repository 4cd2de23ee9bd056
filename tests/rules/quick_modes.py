"""Reads the test vectors of quick_modes.toml, and makes the capture and the keys of a case."""

import struct
import tomllib
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Network, ip_address
from pathlib import Path

from ikeanalyze.wire.registries.ikev1_notifies import Ikev1NotifyType
from tests.analysis.ikev1_phase1 import Phase
from tests.craft import MS, SECOND, Trace, ikev1
from tests.craft.ike import Payload

#: Types of identities (RFC 2407, 4.6.2.1).
ADDRESS, SUBNET, RANGE = 1, 4, 7
OTHER = "10.2.0.0/24"
ESP = 3


@dataclass(frozen=True)
class QuickModeCase:
    """A case, its expected outcome and its expected diagnosis."""

    name: str
    quick_modes: str
    codes: list[str]
    message: str | None = None
    confidence: str | None = None
    says: str = ""
    outcome: str = "established"
    reason: str | None = None

    def __str__(self):
        return self.name


@cache
def read_quick_mode_cases() -> list[QuickModeCase]:
    found = tomllib.loads(Path(__file__).with_name("quick_modes.toml").read_text())
    return [QuickModeCase(**case) for case in found["case"]]


def make_quick_mode_trace(case: QuickModeCase) -> tuple[Trace, str]:
    """The packets of a case, and a key table."""
    phase = Phase()
    trace, sender = phase.trace(), phase.sender
    informational = 1000
    for number, line in enumerate(case.quick_modes.strip().splitlines(), 1):
        side, network, answer = line.split()
        by_initiator = side == "initiator"
        time, message_id = number * SECOND, 7000 + number
        payloads = [sender.hash_payload(), ikev1.sa(), (ikev1.NONCE, bytes(16)), *make_identities(network)]
        trace.send(time, sender.send(ikev1.QUICK_MODE, message_id, payloads), from_initiator=by_initiator)
        end, _, notify_name = answer.partition(":")
        if answer in Ikev1NotifyType.__members__:
            notify_name = answer
        if end in ("answered", "accepted"):
            response = sender.send(ikev1.QUICK_MODE, message_id, payloads)
            trace.send(time + 5 * MS, response, from_initiator=not by_initiator)
        if end == "accepted":
            last = sender.send(ikev1.QUICK_MODE, message_id, [sender.hash_payload()])
            trace.send(time + 10 * MS, last, from_initiator=by_initiator)
        if notify_name:
            informational += 1
            notify = ikev1.NOTIFY, struct.pack(">IBBH", 1, ESP, 0, Ikev1NotifyType[notify_name])
            refusal = sender.send(ikev1.INFORMATIONAL, informational, [sender.hash_payload(), notify])
            trace.send(time + 15 * MS, refusal, from_initiator=by_initiator == (end == "answered"))
    return trace, phase.table()


def make_identities(network: str) -> list[Payload]:
    """The ID payloads of a quick mode, that of the sender first; none for "-"."""
    return [] if network == "-" else [make_identity(network), make_identity(OTHER)]


def make_identity(network: str) -> Payload:
    if "/" in network:
        subnet = IPv4Network(network)
        kind, data = SUBNET, subnet.network_address.packed + subnet.netmask.packed
    else:
        data = b"".join(ip_address(address).packed for address in network.split("-"))
        kind = RANGE if "-" in network else ADDRESS
    return ikev1.ID, struct.pack(">BBH", kind, 0, 0) + data
