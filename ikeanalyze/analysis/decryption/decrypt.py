"""Decrypts the messages of a capture with the keys that fit, and decodes their payloads.

Each distinct message is decrypted once: from the first of its transmissions that can be decrypted; a fragmented message
from the first usable copy of each fragment. Messages are processed per IKE SA in order of time, which is the order that
`keys.key_ring` expects.

The epoch follows from the protocol: the n-th IKE_INTERMEDIATE exchange has message ID n and is protected by the keys
before its additional key exchange; later exchanges are protected by the keys of the last one (RFC 9242, section 3; RFC
9370, section 2.2.2). So the epoch is correct even if a key file lacks some epochs. If IKE_SA_INIT is not in the
capture, the epoch is the position among the key sets of the IKE SA.

For an IKE SA made by rekeying, the CREATE_CHILD_SA exchange takes the place of IKE_SA_INIT (RFC 7296, section 2.18).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from ikeanalyze.analysis.decryption.core_decryption import CoreHandshake, decrypt_with_core
from ikeanalyze.analysis.decryption.decoded_messages import (
    DecodedMessage,
    DecodedMessageList,
    DecodedMessages,
    MessageRecord,
    describe_undecrypted,
    get_message_length,
)
from ikeanalyze.analysis.decryption.decrypt_ikev1 import decrypt_phase1
from ikeanalyze.analysis.grouping import argsort_stable
from ikeanalyze.analysis.handshakes.rekeying import find_rekeyed_sas
from ikeanalyze.analysis.messages.datagrams import IKEV1_ENCRYPTED, RESPONSE
from ikeanalyze.analysis.messages.ikev1_fragments import find_ikev1_fragments
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import BoolArray, Int64Array
from ikeanalyze.capture.buffers import MessageBytes
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.crypto.algorithms import IkeSuite, get_suite
from ikeanalyze.crypto.sk_payload import DecryptedMessage, find_encrypted_payload
from ikeanalyze.crypto.skf_fragments import SkfReassembler
from ikeanalyze.keys.key_ring import KeyRing, SaKeyChain
from ikeanalyze.keys.key_set import KeySet, Phase1Key
from ikeanalyze.wire.ikev2.message import InitMessage, parse_init
from ikeanalyze.wire.registries.ikev2 import ExchangeType, PayloadType

#: Bytes of the header of IKE (RFC 7296, section 3.1).
_HEADER_BYTES: Final = 28
_CREATE_CHILD_SA = int(ExchangeType.CREATE_CHILD_SA)
_IKE_INTERMEDIATE = int(ExchangeType.IKE_INTERMEDIATE)
_INIT_EXCHANGES = frozenset({ExchangeType.IKE_SA_INIT, ExchangeType.IKE_SESSION_RESUME})
#: Ranges of fragment numbers that a finding names.
_MAX_RANGES = 5


@dataclass(frozen=True, slots=True)
class CaptureKeys:
    """The keys for one capture, in the order of the key files."""

    sets: Sequence[KeySet] = ()
    phase1: Sequence[Phase1Key] = ()

    def __bool__(self) -> bool:
        return bool(self.sets or self.phase1)

    def get_spis(self) -> frozenset[int] | None:
        """Initiators' SPIs of the IKE SAs that the keys are for; None: unknown for some keys."""
        spis = [keys.spi_i for keys in self.sets] + [key.cookie_i for key in self.phase1]
        if None in spis:
            return None
        return frozenset(int.from_bytes(spi, "big") for spi in spis if spi is not None)


NO_KEYS = CaptureKeys()


@dataclass(slots=True)
class _DecryptionTask:
    """One distinct message to decrypt: a slot and body of `Messages`."""

    unit: int  # row of its first datagram
    fragments: SkfReassembler | None = None
    parts: dict[int, int] = field(default_factory=dict)  # fragment number to row of the datagram; 0: not fragmented
    position: int = 0  # in the key chain
    done: bool = False


def decrypt_messages(
    state: AnalysisState, encrypted: MessageBytes, keys: Sequence[CaptureKeys], clear: Collection[int] | None = None
) -> DecodedMessages:
    """Decrypt all messages that the keys fit.

    Args:
        state: of the captures.
        encrypted: bytes of the encrypted messages, by datagram.
        keys: of each capture.
        clear: rows of handshakes whose clear messages are decoded even if nothing could be decrypted; None: clear
            messages are not wanted.
    """
    decryption = _Decryption(state, encrypted)
    datagrams, handshake = state.datagrams, state.association.handshake
    rows = np.zeros(0, np.int64)
    if any(capture_keys.sets for capture_keys in keys):
        _, size = encrypted.places(datagrams.datagram)
        rows = np.flatnonzero(((size > 0) | _find_sk_after_clear(state)) & ~datagrams.is_ikev1)
        rows = rows[argsort_stable(handshake[rows])]
    # the handshakes of one capture are contiguous
    ends = np.searchsorted(state.capture[handshake[rows]], np.arange(1, len(keys)))
    handshakes = set(clear or ())
    findings: list[list[tuple[int, str]]] = []
    for capture, (capture_keys, capture_rows) in enumerate(zip(keys, np.split(rows, ends), strict=True)):
        decryption.findings, decryption.truncated = [], []
        if capture_keys:
            handshakes |= decryption.decrypt_capture(capture_keys, capture, capture_rows)
        findings.append(decryption.findings)
    decryption.add_cleartext_messages(handshakes)
    with_keys = np.array([clear is not None or bool(capture_keys) for capture_keys in keys])
    return decryption.get_result(with_keys, findings)


def _find_sk_after_clear(state: AnalysisState) -> BoolArray:
    """Datagrams whose SK payload follows clear payloads (RFC 7296, section 3.14)."""
    datagrams, clear = state.datagrams, state.clear
    _, size = clear.places(datagrams.datagram)
    result = np.zeros(len(datagrams), np.bool_)
    candidates = (size > 0) & ~datagrams.is_ikev1 & (datagrams.next_payload != 0)
    for row in np.flatnonzero(candidates & ~np.isin(datagrams.exchange_type, list(_INIT_EXCHANGES))).tolist():
        payload = find_encrypted_payload(clear[int(datagrams.datagram[row])])
        result[row] = payload is not None and payload.fragment is None
    return result


@dataclass(frozen=True, slots=True)
class _NegotiatedKeys:
    """Key material parameters of one IKE SA, from the messages that set it up."""

    suite: IkeSuite | None
    nonces: bytes | None
    additional: int | None  # additional key exchanges in IKE_INTERMEDIATE; None: unknown


_UNKNOWN = _NegotiatedKeys(None, None, None)


class _NegotiatedKeysLookup:
    """Finds out what each IKE SA negotiated, from the parsed form of its IKE_SA_INIT messages."""

    def __init__(self, state: AnalysisState) -> None:
        self._state = state
        self._rows: dict[int, list[tuple[int, int]]] = {}  # row of the datagram, and form
        rows, forms = state.inits.rows, state.inits.form.tolist()
        handshakes = state.association.handshake[rows].tolist()
        for row, handshake, form in zip(rows.tolist(), handshakes, forms, strict=True):
            self._rows.setdefault(handshake, []).append((row, form))
        self._of_form: dict[int, _NegotiatedKeys] = {}  # by form of the response, without nonces
        self._rekeyed: dict[tuple[int, int, int], _NegotiatedKeys] = {}  # by capture and SPIs

    def add_rekeyed_sas(self, capture: int, contents: Sequence[DecodedMessage]) -> None:
        """Add the IKE SAs that replace the one of these messages."""
        for sa in find_rekeyed_sas(sorted(contents, key=lambda content: (content.exchange, content.response))):
            self._rekeyed[capture, sa.spi_i, sa.spi_r] = _NegotiatedKeys(get_suite(sa.chosen), sa.nonces, 0)

    def get(self, handshake: int, row: int, *, with_nonces: bool = True) -> _NegotiatedKeys:
        """From the last IKE_SA_INIT request and response of the capture; `row`: of a datagram with both SPIs.

        `with_nonces`: also read the nonces, which takes longer.
        """
        state, views = self._state, self._state.inits.views
        last: dict[bool, tuple[int, int]] = {}  # by whether it is a response
        for init_row, form in self._rows.get(handshake, ()):
            # all messages of a form have a nonce, or none has
            if views[form].nonce is not None:
                last[bool(state.datagrams.flags[init_row] & RESPONSE)] = init_row, form
        if True not in last:
            key = int(state.capture[handshake]), int(state.datagrams.spi_i[row]), int(state.datagrams.spi_r[row])
            return self._rekeyed.get(key) or _UNKNOWN
        form = last[True][1]
        negotiated = self._of_form.get(form)
        if negotiated is None:
            negotiated = self._of_form[form] = _get_negotiated_keys(views[form])
        if with_nonces and False in last:
            ni, nr = (self._read_nonce(last[response][0]) for response in (False, True))
            if ni and nr:
                return replace(negotiated, nonces=ni + nr)
        return negotiated

    def _read_nonce(self, row: int) -> bytes | None:
        data = self._state.clear.get(int(self._state.datagrams.datagram[row]))
        return None if data is None else parse_init(data).nonce


def _get_negotiated_keys(response: InitMessage) -> _NegotiatedKeys:
    """What the responder chose, without nonces."""
    additional = [] if response.chosen is None else response.chosen.list_additional_key_exchanges()
    return _NegotiatedKeys(get_suite(response.chosen), None, len({slot for slot, _ in additional}))


class _EncryptedRows:
    """The encrypted datagrams of one capture: plain lists, which a loop reads faster than arrays."""

    def __init__(self, state: AnalysisState, rows: Int64Array) -> None:
        datagrams = state.datagrams
        self.row: list[int] = rows.tolist()
        self.message: list[int] = state.message_of_datagram[rows].tolist()
        self.number: list[int] = datagrams.fragment[rows].tolist()
        self.total: list[int] = datagrams.fragments[rows].tolist()
        self.from_initiator: list[bool] = state.association.from_initiator[rows].tolist()
        spis = datagrams.spi_i[rows].tolist(), datagrams.spi_r[rows].tolist()
        self.spis: list[tuple[int, int]] = list(zip(*spis, strict=True))


class _Decryption:
    """The messages decrypted so far."""

    def __init__(self, state: AnalysisState, encrypted: MessageBytes) -> None:
        self.findings: list[tuple[int, str]] = []  # of the current capture
        self.truncated: list[int] = []  # frames of encrypted messages that the current capture truncates
        self._state = state
        self._encrypted = encrypted
        self._all = DecodedMessageList(state)
        messages = state.messages
        #: (slot, body) of each message: the same for all its transmissions
        self._identity = list(zip(messages.slot.tolist(), messages.body.tolist(), strict=True))
        self._index: dict[tuple[int, int], int] = {}  # identity to index in `_all`

    @cached_property
    def _negotiated(self) -> _NegotiatedKeysLookup:
        return _NegotiatedKeysLookup(self._state)

    @cached_property
    def _places(self) -> tuple[list[int], list[int]]:
        """Offset and size in bytes of each datagram's message in the store of encrypted messages."""
        begin, size = self._encrypted.places(self._state.datagrams.datagram)
        return begin.tolist(), size.tolist()

    def get_result(self, with_keys: BoolArray, findings: list[list[tuple[int, str]]]) -> DecodedMessages:
        """The decoded messages; `with_keys`: captures whose encrypted messages are counted."""
        state, datagrams = self._state, self._state.datagrams
        of_message = np.array([self._index.get(identity, -1) for identity in self._identity], np.int64)
        opened = [record.opened is not None for record in self._all.records]
        decrypted = np.array([*opened, False], np.bool_)[of_message]
        is_encrypted = np.where(
            datagrams.is_ikev1,
            datagrams.flags & IKEV1_ENCRYPTED != 0,
            np.isin(datagrams.next_payload, (PayloadType.SK, PayloadType.SKF)),
        )
        is_encrypted &= with_keys[state.capture[state.association.handshake]]
        encrypted = decrypted.copy()  # clear payloads may precede SK
        encrypted[state.message_of_datagram[is_encrypted]] = True
        return DecodedMessages(of_message, self._all, encrypted, decrypted, findings, self._all.records)

    def decrypt_capture(self, keys: CaptureKeys, capture: int, rows: Int64Array) -> set[int]:
        """Decrypt the messages of one capture; `rows` are its encrypted datagrams, handshake by handshake.

        Returns the handshakes of which a message was decrypted.
        """
        handshakes: set[int] = set()
        ring = KeyRing(keys.sets)
        owner = self._state.association.handshake[rows]
        starts = [] if not keys.sets or not len(rows) else [0, *(np.flatnonzero(np.diff(owner)) + 1).tolist()]
        owners, first = owner[starts].tolist(), rows[starts].tolist()
        known = [
            self._negotiated.get(handshake, row, with_nonces=ring.has_nonces)
            for handshake, row in zip(owners, first, strict=True)
        ]
        suites = [negotiated.suite for negotiated in known]
        is_rekeying = self._state.messages.exchange_type[self._state.message_of_datagram[rows]] == _CREATE_CHILD_SA
        rekeyings = np.logical_or.reduceat(is_rekeying, starts).tolist() if starts else []
        done = decrypt_with_core(self._state, self._encrypted, rows, starts, suites, ring)
        columns: _EncryptedRows | None = None  # needed if the core did not decrypt all of them
        for number, (low, high) in enumerate(zip(starts, [*starts[1:], len(rows)], strict=False)):
            handshake, before, negotiated = owners[number], len(self._all), known[number]
            if negotiated is _UNKNOWN:  # it may have replaced one of those before
                negotiated = self._negotiated.get(handshake, first[number], with_nonces=ring.has_nonces)
            if number in done:
                self._add_from_core(done[number], negotiated)
            else:
                columns = columns or _EncryptedRows(self._state, rows)
                self._decrypt_handshake(columns, range(low, high), ring, negotiated)
            if len(self._all) > before:
                handshakes.add(handshake)
                if rekeyings[number]:
                    self._negotiated.add_rekeyed_sas(capture, self._all[before:])
        phase1 = decrypt_phase1(self._state, self._encrypted, capture, keys.phase1, self._add)
        self.findings.extend(phase1.findings)
        self.truncated.extend(phase1.truncated)
        if count := len(self.truncated):
            messages = "1 encrypted message is" if count == 1 else f"{count} encrypted messages are"
            self.findings.append((min(self.truncated), f"{messages} truncated in the capture and cannot be decrypted"))
        reported = {text for _, text in self.findings}
        self.findings.extend((0, text) for text in ring.unusable if text not in reported)
        return handshakes | phase1.handshakes

    def _add_from_core(self, handshake: CoreHandshake, negotiated: _NegotiatedKeys) -> None:
        """Add the messages of one handshake that the compiled core decrypted."""
        state = self._state
        for message in handshake.messages:
            row = int(state.message_of_datagram[message.row])
            key_set = handshake.key_sets[message.position]
            record = MessageRecord(
                row,
                message.row,
                self._get_data(message.datagrams[0]),
                message.datagrams,
                message.opened,
                _get_epoch(state, row, negotiated, key_set, message.position),
                key_set,
            )
            self._add(record)
        tasks = [_DecryptionTask(row) for row in handshake.undecrypted]
        self._report_undecrypted(tasks, len(tasks) + len(handshake.messages))

    def _decrypt_handshake(
        self, columns: _EncryptedRows, places: range, ring: KeyRing, negotiated: _NegotiatedKeys
    ) -> None:
        """Decrypt the messages of one handshake, in order of time; `places`: of its datagrams in the columns."""
        tasks: dict[tuple[int, int], _DecryptionTask] = {}
        chains: dict[tuple[int, int], SaKeyChain] = {}
        for place in places:
            row, number, total = columns.row[place], columns.number[place], columns.total[place]
            identity = self._identity[columns.message[place]]
            task = tasks.get(identity)
            if task is None:
                task = tasks[identity] = _DecryptionTask(row)
            same_total = task.fragments is not None and task.fragments.total == total
            if task.done or (number and number in task.parts and same_total):
                continue
            data = self._get_data(row)
            spis = columns.spis[place]
            chain = chains.get(spis)
            if chain is None:
                chain = chains[spis] = ring.get_sa_keys(data[:8], data[8:16], negotiated.suite, negotiated.nonces)
            decrypted = chain.decrypt(data, columns.from_initiator[place])
            if decrypted is None:
                continue
            opened, task.position = decrypted
            if number:
                task.fragments = task.fragments or SkfReassembler()
                if total > task.fragments.total:
                    task.parts.clear()  # fragmented again, into smaller fragments
                if task.fragments.add(number, total, opened.first, opened.plaintext, opened.verified):
                    task.parts[number] = row
                complete = task.fragments.get_message()
                if complete is None:
                    continue
                opened = complete
            else:
                task.parts = {0: row}
            task.done = True
            self._add_decrypted(columns.message[place], row, task, opened, negotiated, chain)
        self._report_undecrypted([task for task in tasks.values() if not task.done], len(tasks))
        first_frame = int(self._state.datagrams.number[columns.row[places[0]]])
        for chain in chains.values():
            self.findings.extend((first_frame, text) for text in chain.unusable)

    def _add_decrypted(
        self,
        message: int,
        row: int,
        task: _DecryptionTask,
        opened: DecryptedMessage,
        negotiated: _NegotiatedKeys,
        chain: SaKeyChain,
    ) -> None:
        """Add a decrypted message; `row` is that of the last datagram that was used."""
        key_set = chain.get_key_set(task.position)
        record = MessageRecord(
            message,
            row,
            self._get_data(task.parts[min(task.parts)]),
            tuple(task.parts[number] for number in sorted(task.parts)),
            opened,
            _get_epoch(self._state, message, negotiated, key_set, task.position),
            key_set,
        )
        self._add(record)

    def _get_data(self, row: int) -> bytes:
        """The bytes of an encrypted message; those that begin with a clear payload are stored with clear messages."""
        begin, size = self._places
        if size[row]:
            return self._encrypted.heap[begin[row] : begin[row] + size[row]].tobytes()
        unit = int(self._state.datagrams.datagram[row])
        data = self._encrypted.get(unit)
        return self._state.clear[unit] if data is None else data

    def _is_truncated(self, row: int) -> bool:
        """Whether an encrypted message is longer than what was captured of it."""
        begin, size = self._places
        if size[row]:
            header = self._encrypted.heap[begin[row] : begin[row] + min(int(size[row]), _HEADER_BYTES)]
            return int(size[row]) < get_message_length(header.tobytes())
        data = self._get_data(row)
        return len(data) < get_message_length(data)

    def _add(self, record: MessageRecord) -> None:
        """Add a message, and thereby its other transmissions."""
        self._index[self._identity[record.message]] = len(self._all)
        self._all.append(record)

    def add_cleartext_messages(self, handshakes: set[int]) -> None:
        """Decode the clear IKE messages of these handshakes."""
        state, datagrams = self._state, self._state.datagrams
        begin, size = state.clear.places(datagrams.datagram)
        wanted = np.isin(state.association.handshake, np.fromiter(handshakes, np.int64, len(handshakes)))
        wanted &= (datagrams.protocol != Protocol.HIP) & (size > 0)
        # fragments of IKEv1 are stored whether or not the message is clear
        is_fragment = find_ikev1_fragments(datagrams)
        rows, heap = np.flatnonzero(wanted), state.clear.heap.data
        columns = (rows, state.message_of_datagram[rows], is_fragment[rows], begin[rows], (begin + size)[rows])
        for row, message, fragment, low, high in zip(*(column.tolist() for column in columns), strict=True):
            reassembled = state.reassembled.get(row)
            if self._identity[message] in self._index or (fragment and reassembled is None):
                continue
            if reassembled is None:
                self._add(MessageRecord(message, row, heap[low:high], (row,)))
            else:
                self._add(MessageRecord(message, row, reassembled.data, reassembled.datagrams))

    def _report_undecrypted(self, undone: list[_DecryptionTask], count: int) -> None:
        """Findings about messages of one handshake that could not be decrypted, although a part of it was.

        `count`: of all its encrypted messages.
        """
        numbers = self._state.datagrams.number
        frames = []
        for task in undone:
            frame = int(numbers[task.unit])
            if task.fragments is not None:
                self.findings.append((frame, _describe_missing_fragments(task.fragments)))
            elif self._is_truncated(task.unit):
                self.truncated.append(frame)
            else:
                frames.append(frame)
        if frames and len(frames) < count:
            self.findings.append((frames[0], describe_undecrypted(len(frames))))


def _describe_missing_fragments(fragments: SkfReassembler) -> str:
    missing = fragments.get_missing_ranges()
    ranges = (str(part[0]) if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in missing[:_MAX_RANGES])
    more = f" and {len(missing) - _MAX_RANGES} more ranges" if len(missing) > _MAX_RANGES else ""
    return f"fragments {', '.join(ranges)}{more} of {fragments.total} are missing: the message cannot be reassembled"


def _get_epoch(
    state: AnalysisState, message: int, negotiated: _NegotiatedKeys, key_set: KeySet, position: int
) -> int | None:
    """The epoch of the keys of a row of Messages; `position`: of the key set in the chain of the IKE SA."""
    additional, before = negotiated.additional, max(int(state.messages.message_id[message]) - 1, 0)
    if state.messages.exchange_type[message] == _IKE_INTERMEDIATE:
        return before if additional is None else min(before, additional)
    if additional is None:
        # without the SPIs of a key set, the number of key sets before it is unknown
        return position if key_set.spi_i is not None else None
    return additional
