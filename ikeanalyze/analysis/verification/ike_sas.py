"""The IKE SAs of a capture as a verification wants them: messages as they were sent, keys of all files by epoch."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage, DecodedMessages
from ikeanalyze.analysis.handshakes.rekeying import RekeyedSa, find_rekeyed_sas
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.buffers import MessageBytes
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.crypto.sk_payload import find_encrypted_payload
from ikeanalyze.keys.key_set import KeySet
from ikeanalyze.wire.ikev2.message import InitMessage, parse_init
from ikeanalyze.wire.ikev2.proposals import Proposal
from ikeanalyze.wire.registries.ikev2 import ExchangeType
from ikeanalyze.wire.registries.ikev2_transforms import TransformType

_LENGTH: Final = slice(24, 28)  # of the message, in the IKE header
_MISSING_SHOWN: Final = 5

Values = tuple[bytes, bytes, bytes, bytes]


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message that could be looked into."""

    content: DecodedMessage
    message: bytes = field(repr=False)  # as it was sent; the first of its fragments


@dataclass(frozen=True, slots=True)
class UndecryptedMessage:
    """An encrypted message that no key opened."""

    exchange_type: int
    message_id: int
    from_initiator: bool
    response: bool
    frame: int  # number of its first frame
    lacks: str | None  # what the capture lacks of it; None: it is whole


@dataclass(frozen=True, slots=True)
class EpochKeys:
    """One key set as one file has it."""

    epoch: int
    keys: KeySet


@dataclass(slots=True)
class IkeSaRecord:
    """One IKE SA."""

    handshake: int  # row in the capture's handshakes
    version: int  # Protocol.IKEV2 or IKEV1
    spi_i: bytes
    spi_r: bytes  # zeros: it never had one
    messages: list[SentMessage]  # in order of their exchanges, requests first
    closed: list[UndecryptedMessage]
    request: SentMessage | None = None  # IKE_SA_INIT, the one that was answered
    response: SentMessage | None = None
    nonce_i: bytes | None = None  # of IKE_SA_INIT
    nonce_r: bytes | None = None
    nonces: bytes | None = None  # Ni | Nr of IKE_SA_INIT, or of the CREATE_CHILD_SA exchange that made it
    chosen: Proposal | None = None  # None: not in the capture
    parent: "IkeSaRecord | None" = field(default=None, repr=False)  # the IKE SA that it replaces
    key_sets: list[EpochKeys] = field(default_factory=list)  # by epoch

    @property
    def additional(self) -> int:
        """Additional key exchanges in IKE_INTERMEDIATE: as many epochs come after the first."""
        if self.parent is not None or self.chosen is None:
            return 0
        kinds = range(TransformType.ADDKE1, TransformType.ADDKE7 + 1)
        return len({one.type for one in self.chosen.transforms if one.type in kinds and one.id})


def get_key_values(keys: KeySet) -> Values:
    """What tells key sets apart, whatever else their files say."""
    return keys.sk_ei, keys.sk_er, keys.sk_ai, keys.sk_ar


def collect_ike_sas(
    conversation: AnalysisState, sealed: MessageBytes, contents: DecodedMessages, key_sets: Sequence[KeySet]
) -> list[IkeSaRecord]:
    """All IKE SAs that the capture has encrypted messages of, or IKE_SA_INIT with an answer, in their order.

    `key_sets` are those of all files, each file's in its own order.
    """
    capture = _MessageLookup(conversation, sealed, contents)
    by_handshake = contents.group_by_handshake()
    closed = capture.find_undecrypted()
    found: dict[int, IkeSaRecord] = {}
    for handshake in range(conversation.association.count):
        if handshake in conversation.hits:
            continue
        sent = [
            SentMessage(content, message)
            for content in by_handshake.get(handshake, ())
            if (message := capture.message(content)) is not None
        ]
        sa = found[handshake] = IkeSaRecord(handshake, *capture.identity(handshake), sent, closed.get(handshake, []))
        _read_init(sa)
    _tie(found, by_handshake)
    _give_keys(list(found.values()), key_sets)
    return list(found.values())


class _MessageLookup:
    """Looks messages up."""

    def __init__(self, conversation: AnalysisState, sealed: MessageBytes, contents: DecodedMessages) -> None:
        self._conversation = conversation
        self._sealed = sealed
        self._contents = contents
        units, association = conversation.units, conversation.association
        self._last = np.full(association.count, -1)  # row of the last unit with both SPIs, or else of the last one
        self._last[association.handshake] = np.arange(len(units))
        both = np.flatnonzero(units.spi_r != 0)
        self._last[association.handshake[both]] = both

    def identity(self, handshake: int) -> tuple[int, bytes, bytes]:
        """Version and SPIs."""
        units, row = self._conversation.units, int(self._last[handshake])
        return int(units.protocol[row]), int(units.spi_i[row]).to_bytes(8), int(units.spi_r[row]).to_bytes(8)

    def message(self, content: DecodedMessage) -> bytes | None:
        """The bytes that a content was taken from, of fragments the first; None: they were not kept."""
        store = self._sealed if content.encrypted else self._conversation.clear
        data = store.get(int(self._conversation.units.unit[content.units[0]])) if content.units else None
        return None if data is None else data[: int.from_bytes(data[_LENGTH])]

    def find_undecrypted(self) -> dict[int, list[UndecryptedMessage]]:
        """Encrypted messages without content, by handshake, each once."""
        messages, contents = self._conversation.messages, self._contents
        rows = np.flatnonzero(contents.encrypted & (contents.of_message < 0) & (messages.protocol == Protocol.IKEV2))
        units_of: dict[int, list[int]] = {int(row): [] for row in rows}
        of_unit = self._conversation.message_of_unit
        for unit in np.flatnonzero(np.isin(of_unit, rows)).tolist():
            units_of[int(of_unit[unit])].append(unit)
        same: dict[tuple[int, int], list[int]] = {}
        for row in rows.tolist():
            same.setdefault((int(messages.slot[row]), int(messages.body[row])), []).append(row)
        found: dict[int, list[UndecryptedMessage]] = {}
        for transmissions in same.values():
            row = transmissions[0]
            found.setdefault(int(messages.handshake[row]), []).append(
                UndecryptedMessage(
                    exchange_type=int(messages.exchange_type[row]),
                    message_id=int(messages.message_id[row]),
                    from_initiator=bool(messages.from_initiator[row]),
                    response=bool(messages.response[row]),
                    frame=int(messages.first_frame[row]),
                    lacks=self._lacks([unit for one in transmissions for unit in units_of[one]]),
                )
            )
        return found

    def _lacks(self, rows: Iterable[int]) -> str | None:
        """What is missing of a message; its units are those of all its transmissions."""
        units = self._conversation.units
        there, total = set(), 0
        for row in rows:
            data = self._sealed.get(int(units.unit[row]))
            if data is not None and find_encrypted_payload(data) is not None:
                there.add(int(units.fragment[row]))
                total = max(total, int(units.fragments[row]))
        if not there:
            return "the message is not whole in the capture"
        missing = [str(number) for number in range(1, total + 1) if number not in there]
        if not missing:
            return None
        some = ", ".join(missing[:_MISSING_SHOWN])
        more = f" and {len(missing) - _MISSING_SHOWN} more" if len(missing) > _MISSING_SHOWN else ""
        return f"of its {total} fragments, the capture lacks {some}{more}"


def _read_init(sa: IkeSaRecord) -> None:
    """The IKE_SA_INIT response that ended the negotiation, and the request that it answers."""
    inits = [one for one in sa.messages if one.content.exchange_type == ExchangeType.IKE_SA_INIT]
    views: list[tuple[SentMessage, InitMessage]] = [(one, parse_init(one.message)) for one in inits]
    answers = [pair for pair in views if pair[0].content.response and pair[1].nonce is not None]
    requests = [pair for pair in views if not pair[0].content.response and pair[1].nonce is not None]
    if answers:
        sa.response, view = answers[-1]
        sa.nonce_r, sa.chosen = view.nonce, view.chosen
        exchange = sa.response.content.exchange
        requests = [pair for pair in requests if pair[0].content.exchange == exchange]
    if requests:
        sa.request, view = requests[-1]
        sa.nonce_i = view.nonce
    if sa.nonce_i is not None and sa.nonce_r is not None:
        sa.nonces = sa.nonce_i + sa.nonce_r


def _tie(sas: Mapping[int, IkeSaRecord], contents: Mapping[int, Sequence[DecodedMessage]]) -> None:
    """Tell IKE SAs which were made by rekeying what made them."""
    made: dict[tuple[bytes, bytes], tuple[IkeSaRecord, RekeyedSa]] = {}
    for handshake, some in contents.items():
        for one in find_rekeyed_sas(some):
            made[one.spi_i.to_bytes(8), one.spi_r.to_bytes(8)] = sas[handshake], one
    for sa in sas.values():
        found = made.get((sa.spi_i, sa.spi_r))
        if found is None or sa.response is not None or found[0] is sa:
            continue
        sa.parent, successor = found
        sa.chosen, sa.nonces = successor.chosen, successor.nonces


def _give_keys(sas: Sequence[IkeSaRecord], key_sets: Sequence[KeySet]) -> None:
    """Each key set to its IKE SA, with the epoch: the file's order, and the epochs of what the keys opened."""
    by_spis = {(sa.spi_i, sa.spi_r): sa for sa in sas}
    by_nonces = {sa.nonces: sa for sa in sas if sa.nonces is not None}
    by_values: dict[Values, IkeSaRecord] = {}
    used: dict[tuple[int, Values], int] = {}
    for sa in sas:
        for one in sa.messages:
            keys, epoch = one.content.keys, one.content.epoch
            if keys is not None and epoch is not None:
                by_values[get_key_values(keys)] = sa
                key = sa.handshake, get_key_values(keys)
                used[key] = min(epoch, used.get(key, epoch))
    own: dict[tuple[int, str], dict[Values, KeySet]] = {}
    for keys in key_sets:
        nonces = keys.derivation.nonces if keys.derivation is not None else None
        owner = by_values.get(get_key_values(keys))
        if keys.spi_i is not None and keys.spi_r is not None:
            owner = by_spis.get((keys.spi_i, keys.spi_r), owner)
        elif owner is None and nonces is not None:
            owner = by_nonces.get(nonces)
        if owner is not None:
            own.setdefault((owner.handshake, keys.origin.path), {}).setdefault(get_key_values(keys), keys)
    by_row = {sa.handshake: sa for sa in sas}
    for (handshake, _), some in own.items():
        sa = by_row[handshake]
        complete = len(some) == sa.additional + 1 and sa.chosen is not None
        previous = -1
        for place, (values, keys) in enumerate(some.items()):
            epoch = place if complete else used.get((handshake, values), previous + 1)
            previous = epoch
            sa.key_sets.append(EpochKeys(epoch, keys))
    for sa in sas:
        sa.key_sets.sort(key=lambda one: one.epoch)
