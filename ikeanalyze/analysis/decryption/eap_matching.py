"""Matches EAP packets in IKE messages with EAP packets in RADIUS packets, byte by byte.

A responder forwards EAP packets unchanged (RFC 3579, section 2.1): that of an IKE_AUTH request is in the Access-Request
that follows, that of the server's response is in the IKE_AUTH response. Identities, successes and the first packets of
most methods are equal in many handshakes; a challenge occurs in one. Therefore a RADIUS conversation belongs to a
handshake if only that handshake has all its EAP packets, and one of them is a challenge or a response to a challenge.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage, DecodedMessages
from ikeanalyze.analysis.exchanges.radius import RadiusExchange
from ikeanalyze.capture.arrays import Int64Array
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.eap.packet import parse_eap_header
from ikeanalyze.wire.registries.ikev2 import ExchangeType, PayloadType

#: Bytes of the shortest challenge or response to one: header, type, 16 bytes (RFC 3748, section 5.4).
_MIN_CHALLENGE: Final = 5 + 16


@dataclass(frozen=True, slots=True)
class EapMatch:
    """An EAP packet that is in an IKE message and in a RADIUS packet."""

    message: int  # row of Messages, of the first transmission
    datagram: int  # row of the RADIUS datagrams, of the first transmission


class EapMatcher:
    """Index of the EAP packets of decrypted IKE_AUTH exchanges; `capture` is that of each handshake."""

    def __init__(self, contents: DecodedMessages, capture: Int64Array) -> None:
        #: By capture, direction (is response) and bytes: indices of the decoded messages.
        self._by_bytes: dict[tuple[int, bool, bytes], list[int]] = {}
        self._contents = contents
        for index, content in enumerate(contents.all):
            if content.protocol == Protocol.IKEV2 and content.exchange_type == ExchangeType.IKE_AUTH:
                for body in content.get_bodies(PayloadType.EAP):
                    key = int(capture[content.handshake]), content.response, body
                    self._by_bytes.setdefault(key, []).append(index)
        decoded = np.flatnonzero(contents.of_message >= 0)
        self._row: dict[int, int] = {}
        for row, index in zip(decoded.tolist(), contents.of_message[decoded].tolist(), strict=True):
            self._row.setdefault(index, row)

    def match(self, pairs: Sequence[RadiusExchange]) -> list[EapMatch]:
        """Assign RADIUS conversations to the handshakes with the same EAP packets, and each pair to its exchange.

        Returns the matching messages.
        """
        conversations: dict[int, list[RadiusExchange]] = {}
        for pair in pairs:
            if not pair.forwarded:
                conversations.setdefault(pair.conversation, []).append(pair)
        matches: list[EapMatch] = []
        for conversation in conversations.values():
            candidates = [matching for pair in conversation for matching in self._find_handshakes(pair) if matching]
            handshakes = set.intersection(*map(set, candidates)) if candidates else set()
            if len(handshakes) != 1 or not any(self._has_challenge(pair) for pair in conversation):
                continue
            (handshake,) = handshakes
            for pair in conversation:
                for (_, rows), matching in zip(_get_eap_packets(pair), self._find_handshakes(pair), strict=True):
                    for content, index in matching.get(handshake, ()):
                        if pair.exchange in (None, content.exchange):
                            pair.handshake, pair.exchange = handshake, content.exchange
                            pair.matched_by = "EAP"
                            matches.append(EapMatch(self._row[index], rows[0]))
                            break
        return matches

    def _has_challenge(self, pair: RadiusExchange) -> bool:
        """Whether an EAP packet of the pair is in an IKE message and too specific for other handshakes."""
        for response, (eap, _) in zip((False, True), _get_eap_packets(pair), strict=True):
            if eap is None or (pair.capture, response, eap) not in self._by_bytes:
                continue
            packet = parse_eap_header(eap)
            if packet and packet.method is not None and len(eap) >= _MIN_CHALLENGE:
                return True
        return False

    def _find_handshakes(self, pair: RadiusExchange) -> list[dict[int, list[tuple[DecodedMessage, int]]]]:
        """For the request and the response: the IKE messages with the same EAP packet, by handshake."""
        result = []
        for response, (eap, _) in zip((False, True), _get_eap_packets(pair), strict=True):
            matching: dict[int, list[tuple[DecodedMessage, int]]] = {}
            for index in self._by_bytes.get((pair.capture, response, eap), ()) if eap else ():
                content = self._contents.all[index]
                matching.setdefault(content.handshake, []).append((content, index))
            result.append(matching)
        return result


def _get_eap_packets(pair: RadiusExchange) -> list[tuple[bytes | None, list[int]]]:
    """EAP packet (or None) and datagrams of the request and of the response."""
    response = pair.response_view.eap_message if pair.response_view is not None else None
    return [
        (pair.view.eap_message if pair.requests else None, pair.requests),
        (response if pair.responses else None, pair.responses),
    ]
