"""Encrypted messages of IKEv1 to their contents: one key for all of an IKE SA, and fragments put together before."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ikeanalyze.analysis.contents import Content
from ikeanalyze.analysis.conversation import Conversation
from ikeanalyze.capture.datagrams import Protocol
from ikeanalyze.capture.kept import MessageBytes
from ikeanalyze.keys.keyset import Phase1Key
from ikeanalyze.keys.phase1 import Phase1Opener
from ikeanalyze.keys.sealed import KeyUnusable, Opened
from ikeanalyze.wire.header import HEADER
from ikeanalyze.wire.ikev1 import Phase1Transform, fragment_of, payloads, read_phase1_sa
from ikeanalyze.wire.ikev2 import read_payloads
from ikeanalyze.wire.registries.ikev1 import PayloadType
from ikeanalyze.wire.registries.ikev1_phase1 import Phase1Attribute

#: Bytes before a fragment's data: its IKE header, generic payload header, fragment ID, number and flags.
_BEFORE_FRAGMENT = HEADER.size + 8


def open_phase1(
    conversation: Conversation,
    sealed: MessageBytes,
    keys: Sequence[Phase1Key],
    add: Callable[[int, Content], None],
) -> Iterator[int]:
    """Give the content of each message that a key fits to `add`, with its row of Messages; yields the handshakes."""
    if not keys:
        return
    by_cookie: dict[int, list[Phase1Key]] = {}
    for key in keys:
        by_cookie.setdefault(int.from_bytes(key.cookie_i, "big"), []).append(key)
    units, association = conversation.units, conversation.association
    _, size = sealed.places(units.unit)
    wanted = units.is_ikev1 & np.isin(units.spi_i, np.fromiter(by_cookie, np.uint64, len(by_cookie)))
    rows: dict[int, list[int]] = {}
    clear: dict[int, list[int]] = {}
    for row in np.flatnonzero(wanted).tolist():
        which = rows if size[row] > 0 else clear
        which.setdefault(int(association.handshake[row]), []).append(row)
    for handshake, some in rows.items():
        for key in by_cookie[int(units.spi_i[some[0]])]:
            opener = _opener(conversation, clear.get(handshake, []), key)
            if opener is not None and _open(conversation, sealed, handshake, some, opener, add):
                yield handshake
                break


def _opener(conversation: Conversation, rows: list[int], key: Phase1Key) -> Phase1Opener | None:
    """The key ready for use, if the clear messages, in these units, say what is needed and it is of this IKE SA."""
    units, association = conversation.units, conversation.association
    public: dict[bool, bytes] = {}
    chosen: Phase1Transform | None = None
    for row in rows:
        data = conversation.clear.get(int(units.unit[row]))
        if data is None:
            continue
        from_initiator = bool(association.from_initiator[row])
        for payload in payloads(data).payloads:
            if payload.type == PayloadType.KE:
                public.setdefault(from_initiator, payload.body)
            elif payload.type == PayloadType.SA and not from_initiator and chosen is None:
                transforms = read_phase1_sa(payload.body).transforms
                chosen = transforms[0] if transforms else None
    if chosen is None or len(public) < 2:
        return None
    encryption = chosen.value(Phase1Attribute.ENCRYPTION_ALGORITHM)
    algorithm = chosen.value(Phase1Attribute.HASH_ALGORITHM)
    if encryption is None or algorithm is None:
        return None
    try:
        return Phase1Opener(key, encryption, algorithm, public[True], public[False])
    except KeyUnusable:
        return None


def _open(
    conversation: Conversation,
    sealed: MessageBytes,
    handshake: int,
    rows: list[int],
    opener: Phase1Opener,
    add: Callable[[int, Content], None],
) -> bool:
    """Open messages in order of time; whether any could be."""
    units, messages = conversation.units, conversation.messages
    done: set[tuple[int, int]] = set()
    parts: dict[tuple[int, int], dict[int, tuple[bytes, bool, int]]] = {}
    for row in rows:
        message = int(conversation.message_of_unit[row])
        identity = int(messages.slot[message]), int(messages.body[message])
        if identity in done:
            continue
        data = sealed[int(units.unit[row])]
        used: tuple[int, ...] = (row,)
        fragment = fragment_of(data)
        if fragment is not None:
            length = int.from_bytes(data[24:28], "big")
            together = parts.setdefault(identity, {})
            together[fragment.number] = data[_BEFORE_FRAGMENT:length], fragment.last, row
            whole = _whole(together)
            if whole is None:
                continue
            data, used = whole
        found: Opened | None = opener.open(data)
        if found is None:
            continue
        done.add(identity)
        chain = read_payloads(found.plaintext, found.first)
        exchange = int(conversation.exchange_of_message[message])
        add(
            message,
            Content(
                handshake=handshake,
                exchange=exchange,
                protocol=Protocol.IKEV1,
                exchange_type=int(messages.exchange_type[message]),
                message_id=int(messages.message_id[message]),
                from_initiator=bool(messages.from_initiator[message]),
                response=bool(messages.response[message]),
                set_up=bool(conversation.exchanges.set_up[exchange]),
                frame=int(units.number[row]),
                header=data[: HEADER.size],
                payloads=chain.payloads,
                error=chain.error,
                encrypted=True,
                epoch=None,
                verified=found.verified,
                clear=0,
                first=found.first,
                plaintext=found.plaintext,
                units=used,
            ),
        )
    return bool(done)


def _whole(parts: dict[int, tuple[bytes, bool, int]]) -> tuple[bytes, tuple[int, ...]] | None:
    """The message that fragments are parts of, and the rows that they come from."""
    total = next((number for number, (_, last, _) in parts.items() if last), None)
    if total is None or any(number not in parts for number in range(1, total + 1)):
        return None
    some = [parts[number] for number in range(1, total + 1)]
    return b"".join(data for data, _, _ in some), tuple(row for _, _, row in some)
