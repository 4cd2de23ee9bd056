"""Find the I1 packets that a rendezvous server relayed, in a capture that also has them on their way to the server.

A host whose address its peers do not know registers with a rendezvous server. This relays an I1 to the host, with other
addresses, and adds FROM, which has the initiator's address, and RVS_HMAC (RFC 8004, sections 3.3 and 4.3). All further
packets go directly between the peers. The relayed packet is no message of its own, so it is a second sighting of the
initiator's, as a packet that a NAT translated within the capture. Several servers in a row add a FROM each. HITs
identify hosts everywhere, so addresses and tunnels do not matter.
"""

from collections.abc import Mapping

import numpy as np

from ikeanalyze.analysis.messages.duplicates import HELD_NS
from ikeanalyze.capture.arrays import BoolArray
from ikeanalyze.capture.buffers import Columns
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.capture.decode.ip import get_capture_numbers
from ikeanalyze.wire.hip.packet import parse_hip
from ikeanalyze.wire.registries.hip import HipPacketType
from ikeanalyze.wire.registries.hip_parameters import HipParameterType


def find_relayed_packets(columns: Columns, duplicate: BoolArray, clear: Mapping[int, bytes]) -> dict[int, int]:
    """The datagrams that repeat another one with the parameters of a rendezvous server, each with that one.

    Args:
        columns: of the frames, in order of capture and time.
        duplicate: which frames are copies for another reason. (frames,)
        clear: bytes of HIP packets, by datagram.
    """
    is_i1 = (columns["protocol"] == Protocol.HIP) & (columns["exchange_type"] == HipPacketType.I1)
    rows = np.flatnonzero(is_i1 & ~duplicate)
    rows = rows[np.argsort(columns["time_ns"][rows], kind="stable")]
    capture = get_capture_numbers(columns["source"])
    #: Time and datagram of those without a copy so far, by capture, HITs and number of servers.
    waiting: dict[tuple[int, bytes, bytes, int], list[tuple[int, int]]] = {}
    relayed: dict[int, int] = {}
    for row in rows.tolist():
        time_ns, datagram = int(columns["time_ns"][row]), int(columns["datagram"][row])
        packet = parse_hip(clear.get(datagram, b""))
        if packet is None:
            continue
        servers = sum(parameter.type == HipParameterType.FROM for parameter in packet.parameters)
        hosts = int(capture[row]), packet.sender_hit, packet.receiver_hit
        waiting.setdefault((*hosts, servers), []).append((time_ns, datagram))
        before = waiting.get((*hosts, servers - 1))
        if before:
            sent_ns, original = before.pop()
            if time_ns - sent_ns <= HELD_NS:
                relayed[datagram] = relayed.get(original, original)
    return relayed
