"""What the contents of a capture's messages tell of its handshakes, in one place for the tables and the outcome."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import numpy as np

from ikeanalyze.analysis.decryption.authenticated_outcome import (
    DecryptedOutcome,
    collect_certificates,
    outcome_from_payloads,
)
from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage, DecodedMessages
from ikeanalyze.analysis.decryption.eap_matching import EapMatch
from ikeanalyze.analysis.decryption.key_exchanges import CARRIERS, KeyExchangeRow, collect_key_exchanges
from ikeanalyze.analysis.decryption.payload_bytes import MessageSize, count_payload_bytes
from ikeanalyze.analysis.handshakes.rekeying import RekeyedSa, find_rekeyed_sas
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import Int64Array
from ikeanalyze.capture.buffers import MessageBytes
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.ikev2.checks import check_payload_chain
from ikeanalyze.wire.ikev2.payloads import KeyExchange
from ikeanalyze.wire.payload_chain import PayloadChain
from ikeanalyze.wire.x509.certificates import ParsedCertificate

_LENGTH: Final = slice(24, 28)


@dataclass(frozen=True, slots=True)
class HandshakeContents:
    """What one handshake's contents tell."""

    proof: DecryptedOutcome
    certificates: list[tuple[bool, ParsedCertificate]]  # whether the initiator sent it
    key_exchanges: list[KeyExchangeRow]
    payload_bytes: dict[str, int]
    successors: list[RekeyedSa]


@dataclass(frozen=True, slots=True)
class CaptureContents:
    """Of the handshakes that were looked into, by row."""

    contents: DecodedMessages
    of: Mapping[int, HandshakeContents]
    findings: list[list[tuple[int, str]]] = field(default_factory=list)  # of each capture: frame, what
    same_eap: Sequence[EapMatch] = ()  # known once RADIUS is assigned
    parameters: Mapping[int, list[str]] = field(default_factory=dict)  # of HIP, by row of Messages

    def index_rekeyed_sas(self, capture: Int64Array) -> dict[tuple[int, int, int], tuple[int, RekeyedSa]]:
        """By capture and both SPIs of a new IKE SA: the handshake that it replaces, and what was agreed on.

        `capture` is that of each handshake.
        """
        return {
            (int(capture[handshake]), one.spi_i, one.spi_r): (handshake, one)
            for handshake, inside in self.of.items()
            for one in inside.successors
        }


def summarise_contents(
    conversation: AnalysisState,
    sealed: MessageBytes,
    contents: DecodedMessages,
    parameters: Mapping[int, list[str]] = MappingProxyType({}),
) -> CaptureContents:
    """What is told by all contents; `parameters` are those of HIP (see `hip_contents`).

    Findings are in order of their frames.
    """
    sent = _SetupMessages(conversation, sealed, contents)
    insides: dict[int, HandshakeContents] = {}
    findings = [list(some) for some in contents.findings]
    for handshake, some in contents.group_by_handshake().items():
        exchanged, found = collect_key_exchanges(some)
        told = findings[conversation.capture[handshake]]
        told.extend(found)
        for content in some:
            told.extend((content.frame, what) for what in _findings(content))
        insides[handshake] = HandshakeContents(
            proof=outcome_from_payloads(some),
            certificates=collect_certificates(some),
            key_exchanges=exchanged,
            payload_bytes=sent.count_bytes(handshake),
            successors=list(find_rekeyed_sas(some)),
        )
    for told in findings:
        told.sort(key=lambda finding: finding[0])
    return CaptureContents(contents, insides, findings, parameters=parameters)


def _findings(content: DecodedMessage) -> tuple[str, ...]:
    """What is wrong with one message; its key exchanges are looked at in their context elsewhere."""
    if content.protocol != Protocol.IKEV2:
        return () if content.error is None else (f"payloads: {content.error}",)
    inspected = check_payload_chain(PayloadChain(content.payloads, content.error), response=content.response)
    elsewhere: tuple[str, ...] = ()
    if content.exchange_type in CARRIERS:
        elsewhere = next((one.findings for one in inspected.payloads if isinstance(one.body, KeyExchange)), ())
    return tuple(what for what in inspected.findings if what not in elsewhere)


class _SetupMessages:
    """The messages of the set-ups, with what one transmission of each takes."""

    def __init__(self, conversation: AnalysisState, sealed: MessageBytes, contents: DecodedMessages) -> None:
        self._conversation = conversation
        self._stores = sealed, conversation.clear
        self._contents = contents
        association = conversation.association
        looked = np.fromiter({one.handshake for one in contents.all}, np.int64)
        rows = np.flatnonzero(np.isin(association.handshake, looked))
        self._units: dict[int, list[int]] = {}
        for row, handshake in zip(rows.tolist(), association.handshake[rows].tolist(), strict=True):
            self._units.setdefault(handshake, []).append(row)

    def count_bytes(self, handshake: int) -> dict[str, int]:
        """Bytes of one handshake's set-up by part."""
        conversation = self._conversation
        units, messages, exchanges = conversation.units, conversation.messages, conversation.exchanges
        sent: dict[tuple[int, int], MessageSize] = {}
        seen: set[tuple[int, int, int]] = set()
        counted: set[int] = set()
        repeated = 0
        for row in self._units[handshake]:
            message = int(conversation.message_of_unit[row])
            if not exchanges.set_up[conversation.exchange_of_message[message]]:
                continue
            identity = int(messages.slot[message]), int(messages.body[message])
            index = int(self._contents.of_message[message])
            one = sent.get(identity)
            if one is None:
                one = sent[identity] = MessageSize(self._contents.all[index] if index >= 0 else None)
            if message not in counted:
                counted.add(message)
                needed = int(messages.needed_bytes[message])
                one.frame_bytes += needed
                repeated += int(messages.bytes[message]) - needed
            # as `needed_bytes` counts: a fragment that is cut anew is the same one, sent again
            part = *identity, int(units.fragment[row])
            if part not in seen:
                seen.add(part)
                one.ike_bytes += self._length(int(units.unit[row]))
                one.headers += 1
        return count_payload_bytes(sent.values(), repeated)

    def _length(self, unit: int) -> int:
        """Bytes of a message by its own header; 0: it was not kept."""
        for store in self._stores:
            data = store.get(unit)
            if data is not None:
                return int.from_bytes(data[_LENGTH], "big")
        return 0
