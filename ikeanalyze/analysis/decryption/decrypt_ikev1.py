"""Encrypted messages of IKEv1 to their contents: one key for all of an IKE SA, and fragments put together before.

Two files may have two keys for one IKE SA: with pre-shared keys that differ, the peers derive different ones. Each message
is opened by the first that fits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.buffers import MessageBytes
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.crypto.ikev1 import Phase1Decryptor
from ikeanalyze.crypto.sk_payload import DecryptedMessage, UnusableKeyError
from ikeanalyze.keys.key_set import Phase1Key
from ikeanalyze.wire.header import HEADER
from ikeanalyze.wire.ikev1.message import parse_ikev1_fragment, parse_ikev1_payloads
from ikeanalyze.wire.ikev1.phase1_sa import Phase1Transform, parse_phase1_sa
from ikeanalyze.wire.ikev2.message import parse_decrypted_payloads
from ikeanalyze.wire.registries.ikev1 import Ikev1PayloadType
from ikeanalyze.wire.registries.ikev1_phase1 import Phase1Attribute

#: Bytes before a fragment's data: its IKE header, generic payload header, fragment ID, number and flags.
_BEFORE_FRAGMENT = HEADER.size + 8
_LENGTH = slice(24, 28)  # of the message, in the IKE header


@dataclass(slots=True)
class Phase1Result:
    """What came of the keys."""

    handshakes: set[int] = field(default_factory=set)  # that something of could be opened
    findings: list[tuple[int, str]] = field(default_factory=list)  # frame, what
    cut: list[int] = field(default_factory=list)  # frames of messages of which the capture has not all bytes


def decrypt_phase1(
    conversation: AnalysisState,
    sealed: MessageBytes,
    capture: int,
    keys: Sequence[Phase1Key],
    add: Callable[[int, DecodedMessage], None],
) -> Phase1Result:
    """Give the content of each message that a key fits to `add`, with its row of Messages.

    `keys` are those of one capture, of this number.
    """
    work = Phase1Result()
    if not keys:
        return work
    by_cookie: dict[int, dict[bytes, Phase1Key]] = {}
    for key in keys:
        by_cookie.setdefault(int.from_bytes(key.cookie_i, "big"), {}).setdefault(key.key, key)
    units, association = conversation.units, conversation.association
    _, size = sealed.places(units.unit)
    wanted = units.is_ikev1 & np.isin(units.spi_i, np.fromiter(by_cookie, np.uint64, len(by_cookie)))
    wanted &= conversation.capture[association.handshake] == capture
    rows: dict[int, list[int]] = {}
    clear: dict[int, list[int]] = {}
    for row in np.flatnonzero(wanted).tolist():
        which = rows if size[row] > 0 else clear
        which.setdefault(int(association.handshake[row]), []).append(row)
    for handshake, some in rows.items():
        wholes, lacking = _put_together(conversation, sealed, some)
        done: set[tuple[int, int]] = set()
        for key in by_cookie[int(units.spi_i[some[0]])].values():
            opener = _opener(conversation, clear.get(handshake, []), key)
            if opener is not None:
                _open(conversation, handshake, wholes, opener, add, done)
        closed = {one.identity: one for one in reversed(wholes) if one.identity not in done}
        cut = [int(units.number[one.row]) for one in closed.values() if one.cut]
        work.cut.extend(cut)
        if done:
            work.handshakes.add(handshake)
            work.findings.extend(lacking)
            unfit = [int(units.number[one.row]) for one in closed.values() if not one.cut]
            if unfit:
                count = "1 message is" if len(unfit) == 1 else f"{len(unfit)} messages are"
                what = f"{count} opened by no key, though others of the IKE SA are"
                work.findings.append((min(unfit), what))
    return work


@dataclass(frozen=True, slots=True)
class _ReassembledMessage:
    """One encrypted message, each time that the capture has all of it."""

    identity: tuple[int, int]  # slot and body of Messages
    data: bytes = field(repr=False)
    row: int  # of the last unit that it was taken from
    units: tuple[int, ...]  # rows, each fragment once

    @property
    def cut(self) -> bool:
        """The capture has less of it than was sent."""
        return len(self.data) < int.from_bytes(self.data[_LENGTH], "big")


def _put_together(
    conversation: AnalysisState, sealed: MessageBytes, rows: Sequence[int]
) -> tuple[list[_ReassembledMessage], list[tuple[int, str]]]:
    """The messages in these units, and findings about fragments that the capture lacks."""
    units, messages = conversation.units, conversation.messages
    found: list[_ReassembledMessage] = []
    parts: dict[tuple[int, int], dict[int, tuple[bytes, bool, int]]] = {}
    whole: set[tuple[int, int]] = set()
    for row in rows:
        message = int(conversation.message_of_unit[row])
        identity = int(messages.slot[message]), int(messages.body[message])
        data = sealed[int(units.unit[row])]
        fragment = parse_ikev1_fragment(data)
        if fragment is None:
            found.append(_ReassembledMessage(identity, data, row, (row,)))
            continue
        if identity in whole:
            continue
        length = int.from_bytes(data[_LENGTH], "big")
        together = parts.setdefault(identity, {})
        together[fragment.number] = data[_BEFORE_FRAGMENT:length], fragment.last, row
        complete = _whole(together)
        if complete is not None:
            whole.add(identity)
            found.append(_ReassembledMessage(identity, complete[0], row, complete[1]))
    lacking = [
        (
            int(units.number[min(row for _, _, row in some.values())]),
            "a message in fragments lacks some: it cannot be put together",
        )
        for identity, some in parts.items()
        if identity not in whole
    ]
    return found, lacking


def _opener(conversation: AnalysisState, rows: list[int], key: Phase1Key) -> Phase1Decryptor | None:
    """The key ready for use, if the clear messages, in these units, say what is needed and it is of this IKE SA."""
    units, association = conversation.units, conversation.association
    public: dict[bool, bytes] = {}
    chosen: Phase1Transform | None = None
    for row in rows:
        data = conversation.clear.get(int(units.unit[row]))
        if data is None:
            continue
        from_initiator = bool(association.from_initiator[row])
        for payload in parse_ikev1_payloads(data).payloads:
            if payload.type == Ikev1PayloadType.KE:
                public.setdefault(from_initiator, payload.body)
            elif payload.type == Ikev1PayloadType.SA and not from_initiator and chosen is None:
                transforms = parse_phase1_sa(payload.body).transforms
                chosen = transforms[0] if transforms else None
    if chosen is None or len(public) < 2:
        return None
    encryption = chosen.value(Phase1Attribute.ENCRYPTION_ALGORITHM)
    algorithm = chosen.value(Phase1Attribute.HASH_ALGORITHM)
    if encryption is None or algorithm is None:
        return None
    try:
        return Phase1Decryptor(key.key, encryption, algorithm, public[True], public[False])
    except UnusableKeyError:
        return None


def _open(
    conversation: AnalysisState,
    handshake: int,
    wholes: Sequence[_ReassembledMessage],
    opener: Phase1Decryptor,
    add: Callable[[int, DecodedMessage], None],
    done: set[tuple[int, int]],
) -> None:
    """Open messages in order of time, and enter them into `done`."""
    units, messages = conversation.units, conversation.messages
    before = frozenset(done)
    seen: set[tuple[int, int]] = set()
    for one in wholes:
        if one.identity in seen:
            continue
        # what another key has opened leads to the next message all the same
        found: DecryptedMessage | None = opener.open(one.data)
        if found is None:
            continue
        seen.add(one.identity)
        if one.identity in before:
            continue
        done.add(one.identity)
        message = int(conversation.message_of_unit[one.row])
        chain = parse_decrypted_payloads(found.plaintext, found.first)
        exchange = int(conversation.exchange_of_message[message])
        add(
            message,
            DecodedMessage(
                handshake=handshake,
                exchange=exchange,
                protocol=Protocol.IKEV1,
                exchange_type=int(messages.exchange_type[message]),
                message_id=int(messages.message_id[message]),
                from_initiator=bool(messages.from_initiator[message]),
                response=bool(messages.response[message]),
                set_up=bool(conversation.exchanges.set_up[exchange]),
                frame=int(units.number[one.row]),
                header=one.data[: HEADER.size],
                payloads=chain.payloads,
                error=chain.error,
                encrypted=True,
                epoch=None,
                verified=found.verified,
                clear=0,
                first=found.first,
                plaintext=found.plaintext,
                units=one.units,
            ),
        )


def _whole(parts: dict[int, tuple[bytes, bool, int]]) -> tuple[bytes, tuple[int, ...]] | None:
    """The message that fragments are parts of, and the rows that they come from."""
    total = next((number for number, (_, last, _) in parts.items() if last), None)
    if total is None or any(number not in parts for number in range(1, total + 1)):
        return None
    some = [parts[number] for number in range(1, total + 1)]
    return b"".join(data for data, _, _ in some), tuple(row for _, _, row in some)
