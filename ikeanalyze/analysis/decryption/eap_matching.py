"""EAP inside IKE and EAP inside RADIUS, matched byte by byte.

A responder hands the EAP messages through as they are (RFC 3579, section 2.1): the one in an IKE_AUTH request is in the
Access-Request that follows, the one in the server's answer is in the IKE_AUTH response. An identity is the same in all
of a user's handshakes, and so are success and the beginnings of most methods; a challenge is in one. So the handshake that
all messages of a RADIUS conversation are found in, one that is like no other among them, is the one that it belongs to.
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

#: Bytes of an EAP packet with a challenge or what is made of one: header, type, 16 bytes (RFC 3748, section 5.4).
_SHORTEST_CHALLENGE: Final = 5 + 16


@dataclass(frozen=True, slots=True)
class EapMatch:
    """An EAP message that is in an IKE message and in a RADIUS packet."""

    message: int  # row of Messages, of the first transmission
    unit: int  # row of the RADIUS units, of the first transmission


class EapMatcher:
    """The EAP messages of decrypted IKE_AUTH exchanges; `capture` is that of each handshake."""

    def __init__(self, contents: DecodedMessages, capture: Int64Array) -> None:
        #: By capture, response and bytes: content indices.
        self._by_bytes: dict[tuple[int, bool, bytes], list[int]] = {}
        self._contents = contents
        for index, content in enumerate(contents.all):
            if content.protocol == Protocol.IKEV2 and content.exchange_type == ExchangeType.IKE_AUTH:
                for body in content.get_bodies(PayloadType.EAP):
                    key = int(capture[content.handshake]), content.response, body
                    self._by_bytes.setdefault(key, []).append(index)
        known = np.flatnonzero(contents.of_message >= 0)
        self._row: dict[int, int] = {}
        for row, index in zip(known.tolist(), contents.of_message[known].tolist(), strict=True):
            self._row.setdefault(index, row)

    def match(self, pairs: Sequence[RadiusExchange]) -> list[EapMatch]:
        """Give RADIUS conversations that are the EAP of one handshake alone to it, and each pair to its exchange.

        Returns the messages that are the same.
        """
        conversations: dict[int, list[RadiusExchange]] = {}
        for pair in pairs:
            if not pair.forwarded:
                conversations.setdefault(pair.conversation, []).append(pair)
        same: list[EapMatch] = []
        for members in conversations.values():
            places = [place for pair in members for place in self._places(pair) if place]
            fitting = set.intersection(*(set(place) for place in places)) if places else set()
            if len(fitting) != 1 or not any(self._tells(pair) for pair in members):
                continue
            (handshake,) = fitting
            for pair in members:
                for (_, rows), place in zip(_said(pair), self._places(pair), strict=True):
                    for content, index in place.get(handshake, ()):
                        if pair.exchange in (None, content.exchange):
                            pair.handshake, pair.exchange = handshake, content.exchange
                            pair.matched_by = "EAP"
                            same.append(EapMatch(self._row[index], rows[0]))
                            break
        return same

    def _tells(self, pair: RadiusExchange) -> bool:
        """Whether an EAP message of it is found that no other handshake would have."""
        for response, (message, _) in zip((False, True), _said(pair), strict=True):
            if message is None or (pair.capture, response, message) not in self._by_bytes:
                continue
            packet = parse_eap_header(message)
            if packet and packet.method is not None and len(message) >= _SHORTEST_CHALLENGE:
                return True
        return False

    def _places(self, pair: RadiusExchange) -> list[dict[int, list[tuple[DecodedMessage, int]]]]:
        """For the request and the response: where its EAP message is, by handshake; empty: it has none."""
        found = []
        for response, (message, _) in zip((False, True), _said(pair), strict=True):
            place: dict[int, list[tuple[DecodedMessage, int]]] = {}
            for index in self._by_bytes.get((pair.capture, response, message), ()) if message else ():
                content = self._contents.all[index]
                place.setdefault(content.handshake, []).append((content, index))
            found.append(place)
        return found


def _said(pair: RadiusExchange) -> list[tuple[bytes | None, list[int]]]:
    """EAP messages and units of the request and the response; None: there is none."""
    answer = pair.response_view.eap_message if pair.response_view is not None else None
    return [
        (pair.view.eap_message if pair.requests else None, pair.requests),
        (answer if pair.responses else None, pair.responses),
    ]
