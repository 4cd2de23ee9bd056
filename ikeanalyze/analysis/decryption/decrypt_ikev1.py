"""Decrypts the messages of IKEv1: one key per IKE SA, and fragments reassembled before decryption.

Two key files may have different keys for one IKE SA: peers with different pre-shared keys derive different keys. Each
message is decrypted by the first key that fits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ikeanalyze.analysis.decryption.decoded_messages import describe_undecrypted, get_message_length
from ikeanalyze.analysis.decryption.message_records import MessageRecord
from ikeanalyze.analysis.messages.ikev1_fragments import Ikev1Reassembler, is_clear_message
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.buffers import MessageBytes
from ikeanalyze.crypto.ikev1 import Phase1Decryptor
from ikeanalyze.crypto.sk_payload import UnusableKeyError
from ikeanalyze.keys.key_set import Phase1Key
from ikeanalyze.wire.ikev1.message import parse_ikev1_fragment, parse_ikev1_payloads
from ikeanalyze.wire.ikev1.proposals import Ikev1Transform, parse_ikev1_sa
from ikeanalyze.wire.registries.ikev1 import Ikev1PayloadType
from ikeanalyze.wire.registries.ikev1_phase1 import Phase1Attribute


@dataclass(slots=True)
class Phase1Result:
    """The result of decrypting with the keys of one capture."""

    findings: list[tuple[int, str]] = field(default_factory=list)  # frame, text
    truncated: list[int] = field(default_factory=list)  # frames of messages that the capture truncates


def decrypt_phase1(
    state: AnalysisState,
    encrypted: MessageBytes,
    capture: int,
    keys: Sequence[Phase1Key],
    add: Callable[[MessageRecord], None],
) -> Phase1Result:
    """Decrypt the messages of one capture; calls `add` for each.

    `keys` are for the capture of this number.
    """
    result = Phase1Result()
    if not keys:
        return result
    by_cookie: dict[int, dict[bytes, Phase1Key]] = {}
    for key in keys:
        by_cookie.setdefault(int.from_bytes(key.cookie_i, "big"), {}).setdefault(key.key, key)
    datagrams, association = state.datagrams, state.association
    _, size = encrypted.places(datagrams.datagram)
    wanted = datagrams.is_ikev1 & np.isin(datagrams.spi_i, np.fromiter(by_cookie, np.uint64, len(by_cookie)))
    wanted &= state.capture[association.handshake] == capture
    encrypted_rows: dict[int, list[int]] = {}
    clear_rows: dict[int, list[int]] = {}
    for row in np.flatnonzero(wanted).tolist():
        by_handshake = encrypted_rows if size[row] > 0 else clear_rows
        by_handshake.setdefault(int(association.handshake[row]), []).append(row)
    for handshake, rows in encrypted_rows.items():
        messages, missing = _reassemble_messages(state, encrypted, rows)
        in_clear = sorted([*clear_rows.get(handshake, []), *(row for row in rows if row in state.reassembled)])
        done: set[tuple[int, int]] = set()
        unusable: list[str] = []
        for key in by_cookie[int(datagrams.spi_i[rows[0]])].values():
            try:
                decryptor = _make_decryptor(state, in_clear, key)
            except UnusableKeyError as error:
                unusable.append(f"{key.origin}: {error}")
                continue
            if decryptor is not None:
                _decrypt(state, messages, decryptor, add, done)
        if not done:
            result.findings.extend((int(datagrams.number[rows[0]]), text) for text in unusable)
        undecrypted = {message.identity: message for message in reversed(messages) if message.identity not in done}
        frames: dict[bool, list[int]] = {True: [], False: []}  # by truncation
        for message in undecrypted.values():
            frames[message.is_truncated].append(int(datagrams.number[message.row]))
        result.truncated.extend(frames[True])
        if done:
            result.findings.extend(missing)
            if frames[False]:
                result.findings.append((min(frames[False]), describe_undecrypted(len(frames[False]))))
    return result


@dataclass(frozen=True, slots=True)
class _EncryptedMessage:
    """One encrypted message: each complete transmission in the capture."""

    identity: tuple[int, int]  # slot and body of Messages
    data: bytes = field(repr=False)
    row: int  # of the last datagram that was used
    datagrams: tuple[int, ...]  # rows of the datagrams, each fragment once

    @property
    def is_truncated(self) -> bool:
        """Whether the capture has fewer bytes than were sent."""
        return len(self.data) < get_message_length(self.data)


def _reassemble_messages(
    state: AnalysisState, encrypted: MessageBytes, rows: Sequence[int]
) -> tuple[list[_EncryptedMessage], list[tuple[int, str]]]:
    """The messages in these datagrams, and findings about missing fragments."""
    datagrams, messages = state.datagrams, state.messages
    result: list[_EncryptedMessage] = []
    fragments: dict[tuple[int, int], Ikev1Reassembler] = {}
    complete: set[tuple[int, int]] = set()
    for row in rows:
        message = int(state.message_of_datagram[row])
        identity = int(messages.slot[message]), int(messages.body[message])
        data = encrypted[int(datagrams.datagram[row])]
        fragment = parse_ikev1_fragment(data)
        if fragment is None:
            result.append(_EncryptedMessage(identity, data, row, (row,)))
        elif identity not in complete:
            joined = fragments.setdefault(identity, Ikev1Reassembler()).add(fragment, data, row)
            if joined is not None:
                complete.add(identity)
                if not is_clear_message(joined.data):
                    result.append(_EncryptedMessage(identity, joined.data, row, joined.datagrams))
    text = "a message lacks fragments and cannot be reassembled"
    missing = [
        (int(datagrams.number[reassembler.first_row]), text)
        for identity, reassembler in fragments.items()
        if identity not in complete
    ]
    return result, missing


def _make_decryptor(state: AnalysisState, rows: list[int], key: Phase1Key) -> Phase1Decryptor | None:
    """A decryptor, if the clear messages in these datagrams have all that it needs.

    Raises:
        UnusableKeyError: the negotiated algorithms are not supported, or the key has not their length.
    """
    association = state.association
    public: dict[bool, bytes] = {}
    chosen: Ikev1Transform | None = None
    for row in rows:
        data = state.get_clear_ikev1(row)
        if data is None:
            continue
        from_initiator = bool(association.from_initiator[row])
        for payload in parse_ikev1_payloads(data).payloads:
            if payload.type == Ikev1PayloadType.KE:
                public.setdefault(from_initiator, payload.body)
            elif payload.type == Ikev1PayloadType.SA and not from_initiator and chosen is None:
                transforms = parse_ikev1_sa(payload.body).transforms
                chosen = transforms[0] if transforms else None
    if chosen is None or len(public) < 2:
        return None
    encryption = chosen.value(Phase1Attribute.ENCRYPTION_ALGORITHM)
    algorithm = chosen.value(Phase1Attribute.HASH_ALGORITHM)
    if encryption is None or algorithm is None:
        return None
    return Phase1Decryptor(key.key, encryption, algorithm, public[True], public[False])


def find_unusable_reason(state: AnalysisState, handshake: int, key: Phase1Key) -> str | None:
    """Why a key cannot be for what a handshake negotiated; None: it can, or the capture does not tell."""
    try:
        _make_decryptor(state, np.flatnonzero(state.association.handshake == handshake).tolist(), key)
    except UnusableKeyError as error:
        return str(error)
    return None


def _decrypt(
    state: AnalysisState,
    messages: Sequence[_EncryptedMessage],
    decryptor: Phase1Decryptor,
    add: Callable[[MessageRecord], None],
    done: set[tuple[int, int]],
) -> None:
    """Decrypt messages in order of time, and add their identities to `done`."""
    before = frozenset(done)
    seen: set[tuple[int, int]] = set()
    for reassembled in messages:
        if reassembled.identity in seen:
            continue
        # messages that another key has decrypted are decrypted too: the IV of the next message depends on them
        decrypted = decryptor.decrypt(reassembled.data)
        if decrypted is None:
            continue
        seen.add(reassembled.identity)
        if reassembled.identity in before:
            continue
        done.add(reassembled.identity)
        message = int(state.message_of_datagram[reassembled.row])
        add(MessageRecord(message, reassembled.row, reassembled.data, reassembled.datagrams, decrypted))
