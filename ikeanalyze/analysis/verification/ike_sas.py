"""Collects the IKE SAs of a capture for verification: their messages as sent, and the keys of all files by epoch."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import numpy as np

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage, DecodedMessages, get_message_length
from ikeanalyze.analysis.decryption.key_changes import count_key_changes, find_protecting_epochs
from ikeanalyze.analysis.decryption.negotiated_keys import list_given_tickets
from ikeanalyze.analysis.decryption.rekey_exchanges import RekeyedSa, read_rekey_exchanges
from ikeanalyze.analysis.messages.association import ASKS_AGAIN
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.buffers import MessageBytes
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.crypto.algorithms import PrfAlgorithm, find_prf, get_prf
from ikeanalyze.crypto.sk_payload import find_encrypted_payload
from ikeanalyze.keys.key_set import KeySet
from ikeanalyze.wire.ikev2.message import InitMessage, parse_init
from ikeanalyze.wire.ikev2.proposals import Proposal
from ikeanalyze.wire.registries.ikev2 import INIT_EXCHANGES, ExchangeType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType

_MAX_FRAGMENTS: Final = 5  # numbers of missing fragments in a text

#: SK_ei, SK_er, SK_ai, SK_ar.
Values = tuple[bytes, bytes, bytes, bytes]


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A decoded message with its bytes."""

    content: DecodedMessage
    message: bytes = field(repr=False)  # as captured; if it was fragmented, the first fragment

    @property
    def is_truncated(self) -> bool:
        """Whether the capture lacks the end of the message or fragment."""
        return len(self.message) < get_message_length(self.message)


@dataclass(frozen=True, slots=True)
class UndecryptedMessage:
    """An encrypted message that could not be decrypted."""

    exchange_type: int
    message_id: int
    from_initiator: bool
    response: bool
    frame: int  # number of its first frame
    missing: str | None  # parts that are not in the capture; None: the message is complete
    epoch: int  # of the keys that protect it; -1: unknown
    data: bytes = field(default=b"", repr=False)  # its first datagram; empty: truncated in the capture


@dataclass(frozen=True, slots=True)
class EpochKeys:
    """One key set of one key file."""

    epoch: int
    keys: KeySet


@dataclass(slots=True)
class IkeSaRecord:
    """One IKE SA."""

    handshake: int  # row in the capture's handshakes
    version: int  # Protocol.IKEV2 or IKEV1
    spi_i: bytes
    spi_r: bytes  # zeros: unknown
    messages: list[SentMessage]  # in order of their exchanges, requests first
    undecrypted: list[UndecryptedMessage]
    request: SentMessage | None = None  # IKE_SA_INIT or IKE_SESSION_RESUME request that was answered
    response: SentMessage | None = None
    nonce_i: bytes | None = None  # of IKE_SA_INIT or IKE_SESSION_RESUME
    nonce_r: bytes | None = None
    nonces: bytes | None = None  # Ni | Nr of the same, or of the CREATE_CHILD_SA exchange that created it
    chosen: Proposal | None = None  # None: not in the capture
    parent: "IkeSaRecord | None" = field(default=None, repr=False)  # the IKE SA that it replaces
    key_sets: list[EpochKeys] = field(default_factory=list)  # by epoch
    #: One of them it resumes (RFC 5723): the one that was given its ticket, or else all that began before it.
    resumable: "list[IkeSaRecord]" = field(default_factory=list, repr=False)
    has_known_ticket: bool = False  # the capture shows which one was given its ticket
    last_epoch: int = -1  # how often IKE_INTERMEDIATE changes its keys; -1: unknown

    @property
    def is_resumed(self) -> bool:
        """Whether IKE_SESSION_RESUME created it."""
        return self.response is not None and self.response.content.exchange_type == ExchangeType.IKE_SESSION_RESUME


def find_negotiated_prf(sa: IkeSaRecord) -> PrfAlgorithm | None:
    """The PRF of the negotiation, or else of the key files; None: unknown or not supported."""
    if (negotiated := get_prf(sa.chosen)) is not None:
        return negotiated
    for entry in sa.key_sets:
        name = None if entry.keys.derivation is None else entry.keys.derivation.prf
        if name is not None and (prf := find_prf(name)) is not None:
            return prf
    return None


def get_key_values(keys: KeySet) -> Values:
    """The encryption and integrity keys, which identify a key set."""
    return keys.sk_ei, keys.sk_er, keys.sk_ai, keys.sk_ar


def collect_ike_sas(
    state: AnalysisState, encrypted: MessageBytes, contents: DecodedMessages, key_sets: Sequence[KeySet]
) -> list[IkeSaRecord]:
    """All IKE SAs of the capture, in order.

    `key_sets` are those of all files, in the order of each file.
    """
    lookup = _MessageLookup(state, encrypted, contents)
    by_handshake = contents.group_by_handshake()
    undecrypted = lookup.find_undecrypted()
    last_epochs = count_key_changes(contents.key_changes)
    sas: dict[int, IkeSaRecord] = {}
    for handshake in range(state.association.count):
        if handshake in state.hits:
            continue
        sent = [
            SentMessage(content, message)
            for content in by_handshake.get(handshake, ())
            if (message := lookup.get_bytes(content)) is not None
        ]
        sa = IkeSaRecord(handshake, *lookup.get_spis(handshake), sent, undecrypted.get(handshake, []))
        sa.last_epoch = int(last_epochs[handshake])
        sas[handshake] = sa
        _read_init(sa)
    _link_rekeyed_sas(sas, by_handshake)
    _link_resumed_sas(list(sas.values()))
    _assign_keys(list(sas.values()), key_sets)
    return list(sas.values())


class _MessageLookup:
    """Looks up the messages of IKE SAs."""

    def __init__(self, state: AnalysisState, encrypted: MessageBytes, contents: DecodedMessages) -> None:
        self._state = state
        self._encrypted = encrypted
        self._contents = contents
        datagrams, association = state.datagrams, state.association
        # row of the last datagram with both SPIs, or else of the last datagram
        self._last = np.full(association.count, -1)
        self._last[association.handshake] = np.arange(len(datagrams))
        both = np.flatnonzero(datagrams.spi_r != 0)
        self._last[association.handshake[both]] = both

    def get_spis(self, handshake: int) -> tuple[int, bytes, bytes]:
        """Version and SPIs."""
        datagrams, row = self._state.datagrams, int(self._last[handshake])
        spi_i, spi_r = (int(spis[row]).to_bytes(8) for spis in (datagrams.spi_i, datagrams.spi_r))
        return int(datagrams.protocol[row]), spi_i, spi_r

    def get_bytes(self, content: DecodedMessage) -> bytes | None:
        """The message as sent, of a fragmented message the first fragment; None: it was not stored."""
        store = self._encrypted if content.encrypted else self._state.clear
        data = store.get(int(self._state.datagrams.datagram[content.datagrams[0]])) if content.datagrams else None
        return None if data is None else data[: get_message_length(data)]

    def find_undecrypted(self) -> dict[int, list[UndecryptedMessage]]:
        """Distinct encrypted messages that were not decrypted, by handshake."""
        messages, contents = self._state.messages, self._contents
        rows = np.flatnonzero(contents.encrypted & (contents.of_message < 0) & (messages.protocol == Protocol.IKEV2))
        rows_of: dict[int, list[int]] = {int(row): [] for row in rows}
        message_of = self._state.message_of_datagram
        for datagram in np.flatnonzero(np.isin(message_of, rows)).tolist():
            rows_of[int(message_of[datagram])].append(datagram)
        key_changes = contents.key_changes[messages.handshake[rows]]
        epochs = dict(zip(rows.tolist(), find_protecting_epochs(self._state, rows, key_changes).tolist(), strict=True))
        by_identity: dict[tuple[int, int], list[int]] = {}
        for row in rows.tolist():
            by_identity.setdefault((int(messages.slot[row]), int(messages.body[row])), []).append(row)
        undecrypted: dict[int, list[UndecryptedMessage]] = {}
        for transmissions in by_identity.values():
            row = transmissions[0]
            message = UndecryptedMessage(
                exchange_type=int(messages.exchange_type[row]),
                message_id=int(messages.message_id[row]),
                from_initiator=bool(messages.from_initiator[row]),
                response=bool(messages.response[row]),
                frame=int(messages.first_frame[row]),
                missing=self._find_missing(chain.from_iterable(rows_of[row] for row in transmissions)),
                epoch=epochs[row],
                data=self._encrypted.get(int(self._state.datagrams.datagram[rows_of[row][0]])) or b"",
            )
            undecrypted.setdefault(int(messages.handshake[row]), []).append(message)
        return undecrypted

    def _find_missing(self, rows: Iterable[int]) -> str | None:
        """The missing parts of a message; `rows` are the datagrams of all its transmissions."""
        datagrams = self._state.datagrams
        present, total = set(), 0
        for row in rows:
            data = self._encrypted.get(int(datagrams.datagram[row]))
            if data is not None and find_encrypted_payload(data) is not None:
                present.add(int(datagrams.fragment[row]))
                total = max(total, int(datagrams.fragments[row]))
        if not present:
            return "the message is not whole in the capture"
        missing = [str(number) for number in range(1, total + 1) if number not in present]
        if not missing:
            return None
        numbers = ", ".join(missing[:_MAX_FRAGMENTS])
        more = f" and {len(missing) - _MAX_FRAGMENTS} more" if len(missing) > _MAX_FRAGMENTS else ""
        subject = "fragment" if len(missing) == 1 else "fragments"
        return f"the capture lacks {subject} {numbers}{more} of {total}"


def _read_init(sa: IkeSaRecord) -> None:
    """Set the IKE_SA_INIT or IKE_SESSION_RESUME response that ended the negotiation, and the request before it."""
    inits = [sent for sent in sa.messages if sent.content.exchange_type in INIT_EXCHANGES]
    views: list[tuple[SentMessage, InitMessage]] = [(sent, parse_init(sent.message)) for sent in inits]
    answers = [pair for pair in views if pair[0].content.response and pair[1].nonce is not None]
    requests = [pair for pair in views if not pair[0].content.response and pair[1].nonce is not None]
    if answers:
        sa.response, view = answers[-1]
        sa.nonce_r, sa.chosen = view.nonce, view.chosen
        exchange = sa.response.content.exchange
        refused = {sent.content.exchange for sent, view in views if sent.content.response and _asks_again(view)}
        # a request has one response: after a refusal in the same exchange, the capture lacks the request of this one
        requests = [pair for pair in requests if pair[0].content.exchange == exchange and exchange not in refused]
    if requests:
        sa.request, view = requests[-1]
        sa.nonce_i = view.nonce
    if sa.nonce_i is not None and sa.nonce_r is not None:
        sa.nonces = sa.nonce_i + sa.nonce_r


def _asks_again(response: InitMessage) -> bool:
    """Whether a response asks for another request, as with COOKIE (RFC 7296, section 2.6.1)."""
    return any(notify_type in ASKS_AGAIN for notify_type in response.notify_types)


def _link_rekeyed_sas(sas: Mapping[int, IkeSaRecord], contents: Mapping[int, Sequence[DecodedMessage]]) -> None:
    """Set the parent and the negotiated values of IKE SAs that were created by rekeying."""
    created: dict[tuple[bytes, bytes], tuple[IkeSaRecord, RekeyedSa]] = {}
    for handshake, messages in contents.items():
        for rekeyed in read_rekey_exchanges(messages):
            created[rekeyed.spi_i.to_bytes(8), rekeyed.spi_r.to_bytes(8)] = sas[handshake], rekeyed
    for sa in sas.values():
        origin = created.get((sa.spi_i, sa.spi_r))
        if origin is not None and sa.response is None and origin[0] is not sa:
            sa.parent, rekeyed = origin
            sa.chosen, sa.nonces = rekeyed.chosen, rekeyed.nonces


def _link_resumed_sas(sas: Sequence[IkeSaRecord]) -> None:
    """Set the IKE SAs that resumed ones may continue, and the algorithms if the ticket shows which one it is.

    A gateway gives a ticket in TICKET_LT_OPAQUE, and the client returns it in TICKET_OPAQUE (RFC 5723, section 7). A
    resumed IKE SA has the algorithms of the one that it resumes (section 5).
    """
    resumed = [sa for sa in sas if sa.is_resumed]
    if not resumed:
        return
    given = [(sa, set(list_given_tickets(sent.content for sent in sa.messages))) for sa in sas]
    for sa in resumed:
        request = None if sa.request is None else parse_init(sa.request.message)
        returned = [] if request is None else request.list_notify_data(NotifyType.TICKET_OPAQUE)
        owners = [
            other for other, tickets in given if other is not sa and any(ticket in tickets for ticket in returned)
        ]
        sa.has_known_ticket = bool(owners)
        sa.resumable = owners or [
            other for other in sas if other.handshake < sa.handshake and other.version == sa.version
        ]
        sa.chosen = owners[0].chosen if owners else None


def _assign_keys(sas: Sequence[IkeSaRecord], key_sets: Sequence[KeySet]) -> None:
    """Assign key sets to IKE SAs, with epochs from the order of the file and from the messages that they decrypted."""
    by_spis = {(sa.spi_i, sa.spi_r): sa for sa in sas}
    by_nonces = {sa.nonces: sa for sa in sas if sa.nonces is not None}
    by_values: dict[Values, IkeSaRecord] = {}
    used: dict[tuple[int, Values], int] = {}
    for sa in sas:
        for sent in sa.messages:
            keys, epoch = sent.content.keys, sent.content.epoch
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
    for (handshake, _), of_file in own.items():
        sa = by_row[handshake]
        complete = len(of_file) == sa.last_epoch + 1
        previous = -1
        for place, (values, keys) in enumerate(of_file.items()):
            epoch = place if complete else used.get((handshake, values), previous + 1)
            previous = epoch
            sa.key_sets.append(EpochKeys(epoch, keys))
    for sa in sas:
        sa.key_sets.sort(key=lambda entry: entry.epoch)
