"""Summarises the decoded messages of each handshake, for the tables and the outcome."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from ikeanalyze.analysis.decryption.authenticated_outcome import (
    DecryptedOutcome,
    collect_certificates,
    outcome_from_payloads,
)
from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage, DecodedMessages, get_message_length
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


@dataclass(frozen=True, slots=True)
class HandshakeContents:
    """Facts from the decoded messages of one handshake."""

    proof: DecryptedOutcome
    certificates: list[tuple[bool, ParsedCertificate]]  # whether the initiator sent it
    key_exchanges: list[KeyExchangeRow]
    payload_bytes: dict[str, int]  # by part, see `payload_bytes`
    successors: list[RekeyedSa]  # IKE SAs that replace this one


@dataclass(frozen=True, slots=True)
class CaptureContents:
    """The decoded messages of all captures, and the facts of each handshake."""

    contents: DecodedMessages
    of: Mapping[int, HandshakeContents]  # by row of the handshake; only handshakes with decoded messages
    findings: list[list[tuple[int, str]]] = field(default_factory=list)  # of each capture: frame, text
    same_eap: Sequence[EapMatch] = ()  # set after RADIUS is assigned
    parameters: Mapping[int, list[str]] = field(default_factory=dict)  # of HIP packets, by row of Messages

    def index_rekeyed_sas(self, capture: Int64Array) -> dict[tuple[int, int, int], tuple[int, RekeyedSa]]:
        """By capture and both SPIs of a new IKE SA: the handshake that it replaces, and the negotiated values.

        `capture` is that of each handshake.
        """
        return {
            (int(capture[handshake]), sa.spi_i, sa.spi_r): (handshake, sa)
            for handshake, facts in self.of.items()
            for sa in facts.successors
        }


def summarise_contents(
    state: AnalysisState,
    encrypted: MessageBytes,
    contents: DecodedMessages,
    parameters: Mapping[int, list[str]] = MappingProxyType({}),
) -> CaptureContents:
    """Summarise the decoded messages of each handshake; `parameters` are those of HIP packets.

    Findings are sorted by frame.
    """
    setup_messages = _SetupMessages(state, encrypted, contents)
    by_handshake: dict[int, HandshakeContents] = {}
    findings = list(map(list, contents.findings))
    for handshake, messages in contents.group_by_handshake().items():
        key_exchanges, key_exchange_findings = collect_key_exchanges(messages)
        of_capture = findings[state.capture[handshake]]
        of_capture.extend(key_exchange_findings)
        for content in messages:
            of_capture.extend((content.frame, text) for text in _check_payloads(content))
        by_handshake[handshake] = HandshakeContents(
            proof=outcome_from_payloads(messages),
            certificates=collect_certificates(messages),
            key_exchanges=key_exchanges,
            payload_bytes=setup_messages.count_bytes(handshake),
            successors=list(find_rekeyed_sas(messages)),
        )
    for of_capture in findings:
        of_capture.sort(key=lambda finding: finding[0])
    return CaptureContents(contents, by_handshake, findings, parameters=parameters)


def _check_payloads(content: DecodedMessage) -> tuple[str, ...]:
    """The findings about one message, except those about KE payloads, which `key_exchanges` checks in context."""
    if content.protocol != Protocol.IKEV2:
        return () if content.error is None else (f"payloads: {content.error}",)
    checked = check_payload_chain(PayloadChain(content.payloads, content.error), response=content.response)
    elsewhere: tuple[str, ...] = ()
    if content.exchange_type in CARRIERS:
        elsewhere = next((part.findings for part in checked.payloads if isinstance(part.body, KeyExchange)), ())
    return tuple(text for text in checked.findings if text not in elsewhere)


class _SetupMessages:
    """Counts the bytes of the messages of the set-ups."""

    def __init__(self, state: AnalysisState, encrypted: MessageBytes, contents: DecodedMessages) -> None:
        self._state = state
        self._stores = encrypted, state.clear
        self._contents = contents
        association = state.association
        handshakes = np.fromiter({content.handshake for content in contents.all}, np.int64)
        rows = np.flatnonzero(np.isin(association.handshake, handshakes))
        self._units: dict[int, list[int]] = {}
        for row, handshake in zip(rows.tolist(), association.handshake[rows].tolist(), strict=True):
            self._units.setdefault(handshake, []).append(row)

    def count_bytes(self, handshake: int) -> dict[str, int]:
        """Bytes of the set-up of one handshake, by part."""
        state, datagrams, messages = self._state, self._state.datagrams, self._state.messages
        sizes: dict[tuple[int, int], MessageSize] = {}
        seen: set[tuple[int, int, int]] = set()
        counted: set[int] = set()
        repeated = 0
        for row in self._units[handshake]:
            message = int(state.message_of_datagram[row])
            if not state.exchanges.set_up[state.exchange_of_message[message]]:
                continue
            identity = int(messages.slot[message]), int(messages.body[message])
            index = int(self._contents.of_message[message])
            size = sizes.get(identity)
            if size is None:
                size = sizes[identity] = MessageSize(self._contents.all[index] if index >= 0 else None)
            if message not in counted:
                counted.add(message)
                needed = int(messages.needed_bytes[message])
                size.frame_bytes += needed
                repeated += int(messages.bytes[message]) - needed
            # like `needed_bytes`: a fragment of a new fragmentation counts as a retransmission
            part = *identity, int(datagrams.fragment[row])
            if part not in seen:
                seen.add(part)
                size.ike_bytes += self._get_length(int(datagrams.datagram[row]))
                size.headers += 1
        return count_payload_bytes(sizes.values(), repeated)

    def _get_length(self, unit: int) -> int:
        """Bytes of a message by its header; 0: the message is not stored."""
        for store in self._stores:
            data = store.get(unit)
            if data is not None:
                return get_message_length(data)
        return 0
