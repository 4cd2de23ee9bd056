"""Describes and checks the parameters of HIP packets. Only single parameters are encrypted, so no keys are used."""

from ipaddress import ip_address

import numpy as np

from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.capture.decode.ip import format_address_code
from ikeanalyze.wire.hip.packet import HipPacket, check_hip_packet, is_checksum_valid, parse_hip


def describe_hip_messages(state: AnalysisState, findings: list[list[tuple[int, str]]]) -> dict[int, list[str]]:
    """The parameters of each row of Messages that is HIP, in order.

    Problems are added to the `findings` of each capture, with the number of the packet's first frame. Of packets with
    the same bytes, only the first is checked.
    """
    datagrams, association = state.datagrams, state.association
    names: dict[int, list[str]] = {}
    known: dict[tuple[int, int], list[str]] = {}
    for row in np.flatnonzero(datagrams.protocol == Protocol.HIP).tolist():
        handshake = int(association.handshake[row])
        content = handshake, int(datagrams.digest[row])
        if content not in known:
            data = state.clear.get(int(datagrams.datagram[row]), b"")
            view = parse_hip(data)
            known[content] = [] if view is None else view.describe()
            if view is not None:
                capture_findings = findings[int(state.capture[handshake])]
                capture_findings.extend(
                    (int(datagrams.number[row]), text) for text in _find_problems(state, row, data, view)
                )
        names[int(state.message_of_datagram[row])] = known[content]
    return names


def _find_problems(state: AnalysisState, row: int, data: bytes, view: HipPacket) -> list[str]:
    problems = check_hip_packet(view)
    datagrams = state.datagrams
    # inside UDP there is no checksum (RFC 5770, section 5.1)
    if view.error is None and not datagrams.source_port[row]:
        ends = (int(datagrams.source[row]), int(datagrams.destination[row]))
        packed = (ip_address(format_address_code(end, state.addresses)).packed for end in ends)
        if not is_checksum_valid(data, *packed):
            problems.append("the checksum does not fit")
    return problems
