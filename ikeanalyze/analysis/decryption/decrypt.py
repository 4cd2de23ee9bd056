"""Decrypts the messages of a capture with the keys that fit, and decodes their payloads.

Each distinct message is decrypted once: from the first of its transmissions that can be decrypted; a fragmented message
from the first usable copy of each fragment, also if forged fragments divide it into several bodies. Messages are
processed per IKE SA in order of time, which is the order that `keys.key_ring` expects.

The epoch follows from the protocol (see `key_changes`), so it is correct even if a key file lacks some epochs. If
IKE_SA_INIT is not in the capture, the epoch is the position among the key sets of the IKE SA.

For an IKE SA made by rekeying, the CREATE_CHILD_SA exchange takes the place of IKE_SA_INIT (RFC 7296, section 2.18).
"""

from collections.abc import Collection, Sequence
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from msgspec import Struct, field, structs

from ikeanalyze.analysis.decryption.bulk_decryption import BulkDecryption, decrypt_in_bulk
from ikeanalyze.analysis.decryption.decoded_messages import (
    DecodedMessageList,
    DecodedMessages,
    describe_undecrypted,
    describe_wrong_key,
    read_message_lengths,
)
from ikeanalyze.analysis.decryption.key_changes import (
    UNKNOWN_KEY_CHANGES,
    count_key_changes,
    find_epochs,
    find_key_changes,
    find_protecting_epochs,
)
from ikeanalyze.analysis.decryption.message_records import (
    MessageRecord,
    MessageRecords,
    join_records,
    make_clear_records,
    make_records,
)
from ikeanalyze.analysis.decryption.negotiated_keys import UNKNOWN_KEYS, NegotiatedKeys, NegotiatedKeysLookup
from ikeanalyze.analysis.grouping import argsort_stable, find_group_starts
from ikeanalyze.analysis.messages.ikev1_fragments import find_ikev1_fragments
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import BoolArray, Int64Array
from ikeanalyze.capture.buffers import MessageBytes
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.crypto.sk_payload import DecryptedMessage, find_encrypted_payload
from ikeanalyze.crypto.skf_fragments import SkfReassembler
from ikeanalyze.keys.key_ring import MAX_TRIALS, KeyRing, SaKeyChain
from ikeanalyze.keys.key_table import CaptureKeys
from ikeanalyze.wire.header import FLAG_ENCRYPTED
from ikeanalyze.wire.registries.ikev2 import INIT_EXCHANGES, ExchangeType, PayloadType

_CREATE_CHILD_SA = int(ExchangeType.CREATE_CHILD_SA)
#: More than an IKE SA has: at most seven additional key exchanges (RFC 9370, section 2.2.1) and a PPK change its keys.
_EPOCHS = 64
#: Ranges of fragment numbers that a finding names.
_MAX_RANGES = 5


class _DecryptionTask(Struct):
    """One distinct message to decrypt: a slot and body of `MessageColumns`."""

    first_row: int  # of its first datagram
    fragments: SkfReassembler | None = None
    parts: dict[int, int] = field(default_factory=dict)  # fragment number to row of the datagram; 0: not fragmented
    position: int = 0  # in the key chain
    done: bool = False
    failed: int | None = None  # row of a complete datagram that no key decrypts


class _SlotFragment(NamedTuple):
    """A decrypted fragment whose ICV is correct."""

    place: int  # of its datagram
    task: _DecryptionTask
    contents: DecryptedMessage


def decrypt_messages(
    state: AnalysisState, encrypted: MessageBytes, keys: Sequence[CaptureKeys], clear: Collection[int] | None = None
) -> DecodedMessages:
    """Decrypt all messages that the keys fit.

    Args:
        state: the analysis of the captures so far.
        encrypted: bytes of the encrypted messages, by datagram.
        keys: the keys of each capture.
        clear: rows of handshakes whose clear messages are decoded even if nothing could be decrypted; None: clear
            messages are not wanted.
    """
    decryption = _Decryption(state, encrypted)
    datagrams, handshake = state.datagrams, state.association.handshake
    rows = np.zeros(0, np.int64)
    if any(capture_keys.sets for capture_keys in keys):
        _, size = encrypted.places(datagrams.datagram)
        rows = np.flatnonzero(((size > 0) | _find_encrypted_after_clear(state)) & ~datagrams.is_ikev1)
        rows = rows[argsort_stable(handshake[rows])]
    # the handshakes of one capture are contiguous
    ends = np.searchsorted(state.capture[handshake[rows]], np.arange(1, len(keys)))
    findings = [
        decryption.decrypt_capture(capture_keys, capture, capture_rows) if capture_keys else []
        for capture, (capture_keys, capture_rows) in enumerate(zip(keys, np.split(rows, ends), strict=True))
    ]
    with_keys = np.array([clear is not None or bool(capture_keys) for capture_keys in keys])
    return decryption.get_result(clear or (), with_keys, findings)


def _describe_trial_limit() -> str:
    return (
        f"{MAX_TRIALS:,} trials of keys without SPIs failed, after which not all were tried on each message: some messages "
        "may remain encrypted although their keys are given. Give keys with SPIs, or fewer keys and a part of the capture"
    )


def _find_encrypted_after_clear(state: AnalysisState) -> BoolArray:
    """Datagrams whose SK or SKF payload follows clear ones (RFC 7296, section 3.14; RFC 7383, section 2.5.3)."""
    datagrams, clear = state.datagrams, state.clear
    _, size = clear.places(datagrams.datagram)
    result = np.zeros(len(datagrams), np.bool_)
    candidates = (size > 0) & ~datagrams.is_ikev1 & (datagrams.next_payload != 0)
    for row in np.flatnonzero(candidates & ~np.isin(datagrams.exchange_type, INIT_EXCHANGES)).tolist():
        payload = find_encrypted_payload(clear[int(datagrams.datagram[row])])
        result[row] = payload is not None and (payload.fragment is None or datagrams.fragment[row] > 0)
    return result


class _KeyChains:
    """Looks up the keys of IKE SAs."""

    def __init__(self, ring: KeyRing, handshakes: Sequence[int], negotiated: Sequence[NegotiatedKeys]) -> None:
        """`negotiated`: what each of the handshakes negotiated."""
        self.ring = ring
        self._negotiated = dict(zip(handshakes, negotiated, strict=True))

    def get(self, handshake: int, spi_i: int, spi_r: int) -> SaKeyChain:
        """The keys of an IKE SA."""
        negotiated = self._negotiated[handshake]
        return self.ring.get_sa_keys(spi_i.to_bytes(8), spi_r.to_bytes(8), negotiated.suite, negotiated.nonces)


class _EncryptedRows:
    """The encrypted datagrams of one capture: plain lists, which a loop reads faster than arrays."""

    def __init__(self, state: AnalysisState, encrypted: MessageBytes, rows: Int64Array, identity: Int64Array) -> None:
        """`identity`: a number for each message of `state`."""
        datagrams = state.datagrams
        self.row: list[int] = rows.tolist()
        message = state.message_of_datagram[rows]
        self.message: list[int] = message.tolist()
        self.identity: list[int] = identity[message].tolist()
        self.slot: list[int] = state.messages.slot[message].tolist()
        self.number: list[int] = datagrams.fragment[rows].tolist()
        self.total: list[int] = datagrams.fragments[rows].tolist()
        self.from_initiator: list[bool] = state.association.from_initiator[rows].tolist()
        spis = datagrams.spi_i[rows].tolist(), datagrams.spi_r[rows].tolist()
        self.spis: list[tuple[int, int]] = list(zip(*spis, strict=True))
        begin, size = encrypted.places(datagrams.datagram[rows])
        self._heap = encrypted.heap.data
        self._begin: list[int] = begin.tolist()
        self._end: list[int] = (begin + size).tolist()

    def get_data(self, place: int) -> bytes:
        """The bytes of a message; empty if they are not stored among the encrypted ones."""
        return self._heap[self._begin[place] : self._end[place]].tobytes()


class _Decryption:
    """The messages decrypted so far."""

    def __init__(self, state: AnalysisState, encrypted: MessageBytes) -> None:
        #: Findings about the current capture: handshake, frame, text.
        self.findings: list[tuple[int, int, str]] = []
        self.truncated: list[int] = []  # frames of encrypted messages that the current capture truncates
        self._state = state
        self._encrypted = encrypted
        self._in_bulk: list[MessageRecords] = []  # decrypted in bulk
        self._records: list[MessageRecord] = []  # decrypted one by one
        self._messages: Int64Array = np.zeros(0, np.int64)  # number of encrypted messages of each handshake
        #: Messages that Python could not decrypt, without those that lack fragments: handshake, row of first datagram.
        self._undecrypted: list[tuple[int, int]] = []
        self._unusable: list[tuple[int, int, str]] = []  # findings about key sets
        #: Of each handshake: see `key_changes`.
        self._key_changes: Int64Array = np.full(state.association.count, UNKNOWN_KEY_CHANGES)
        self._bodies: dict[int, int] = {}  # identity of messages whose fragments are part of another one: that one's
        messages = state.messages
        #: A number for each message: the same for all its transmissions, which are contiguous.
        self._identity: Int64Array = np.cumsum(find_group_starts(messages.slot, messages.body)) - 1

    @cached_property
    def _negotiated(self) -> NegotiatedKeysLookup:
        return NegotiatedKeysLookup(self._state)

    @cached_property
    def _places(self) -> tuple[list[int], list[int]]:
        """Offset and size in bytes of each datagram's message in the store of encrypted messages."""
        begin, size = self._encrypted.places(self._state.datagrams.datagram)
        return begin.tolist(), size.tolist()

    def get_result(
        self, clear: Collection[int], with_keys: BoolArray, findings: list[list[tuple[int, str]]]
    ) -> DecodedMessages:
        """The decoded messages: the decrypted ones handshake by handshake, then the clear ones.

        Args:
            clear: handshakes whose clear messages are decoded even if nothing could be decrypted.
            with_keys: captures whose encrypted messages are counted.
            findings: the findings about each capture.
        """
        state, datagrams = self._state, self._state.datagrams
        decrypted = [*self._in_bulk, make_records(self._records)]
        message = np.concatenate([part.columns.message for part in decrypted])
        is_decrypted = np.zeros(int(self._identity.max(initial=-1)) + 1, np.bool_)
        is_decrypted[self._identity[message]] = True
        is_decrypted[list(self._bodies)] = True
        wanted = np.zeros(state.association.count, np.bool_)
        wanted[list(clear)] = True
        wanted[state.association.handshake[np.concatenate([part.columns.row for part in decrypted])]] = True
        records = join_records([*decrypted, *self._read_cleartext_messages(wanted, is_decrypted)])
        columns = records.columns
        handshake = np.where(columns.encrypted, state.association.handshake[columns.row], state.association.count)
        records = structs.replace(records, columns=columns.select(argsort_stable(handshake)))
        index = np.full(len(is_decrypted), -1)
        index[self._identity[records.columns.message]] = np.arange(len(records))
        index[list(self._bodies)] = index[list(self._bodies.values())]
        of_message = index[self._identity]
        is_decrypted_message = is_decrypted[self._identity]
        is_encrypted = np.where(
            datagrams.is_ikev1,
            datagrams.flags & FLAG_ENCRYPTED != 0,
            np.isin(datagrams.next_payload, (PayloadType.SK, PayloadType.SKF)),
        )
        is_encrypted &= with_keys[state.capture[state.association.handshake]]
        encrypted = is_decrypted_message.copy()  # clear payloads may precede SK
        encrypted[state.message_of_datagram[is_encrypted]] = True
        epochs = find_epochs(
            state, records.columns, self._key_changes[state.association.handshake[records.columns.row]]
        )
        return DecodedMessages(
            of_message,
            DecodedMessageList(state, records, epochs),
            encrypted,
            is_decrypted_message,
            findings,
            records,
            datagrams.digest[records.parts],
            epochs,
            self._key_changes,
        )

    def decrypt_capture(self, keys: CaptureKeys, capture: int, rows: Int64Array) -> list[tuple[int, str]]:
        """Decrypt the messages of one capture; `rows` are its encrypted datagrams, handshake by handshake.

        Returns the findings.
        """
        self.findings, self.truncated = [], []
        ring = KeyRing(keys.sets)
        if keys.sets and len(rows):
            self._decrypt_handshakes(ring, capture, rows)
        # those of IKEv2 in the order of their handshakes
        findings = [(frame, text) for _, frame, text in sorted(self.findings, key=itemgetter(0))]
        if keys.phase1:
            # few captures have IKEv1
            from ikeanalyze.analysis.decryption.decrypt_ikev1 import decrypt_phase1

            phase1 = decrypt_phase1(self._state, self._encrypted, capture, keys.phase1, self._records.append)
            findings.extend(phase1.findings)
            self.truncated.extend(phase1.truncated)
        if count := len(self.truncated):
            messages = "1 encrypted message is" if count == 1 else f"{count} encrypted messages are"
            findings.append((min(self.truncated), f"{messages} truncated in the capture and cannot be decrypted"))
        reported = {text for _, text in findings}
        findings.extend((0, text) for text in ring.unusable if text not in reported)
        if ring.reached_limit:
            findings.append((0, _describe_trial_limit()))
        return findings

    def _decrypt_handshakes(self, ring: KeyRing, capture: int, rows: Int64Array) -> None:
        """Decrypt the messages of IKEv2 of one capture."""
        already = len(self._records)
        owner = self._state.association.handshake[rows]
        starts = np.flatnonzero(find_group_starts(owner))
        owners, first = owner[starts].tolist(), rows[starts].tolist()
        self._messages = np.zeros(self._state.association.count, np.int64)
        known = self._negotiated.get_all(owners, first, with_nonces=ring.has_nonces)
        is_rekeying = self._state.messages.exchange_type[self._state.message_of_datagram[rows]] == _CREATE_CHILD_SA
        rekeys = np.logical_or.reduceat(is_rekeying, starts)
        suites = [negotiated.suite for negotiated in known]
        done = decrypt_in_bulk(self._state, self._encrypted, rows, starts, suites, ring)
        # in order: what follows a rekeying or a ticket depends on it
        is_resumed = np.isin(owners, list(self._negotiated.resumed)) & ~done.handled
        precedes_resumed = np.arange(len(owners)) < np.flatnonzero(is_resumed).max(initial=0)
        is_unknown = np.array([negotiated is UNKNOWN_KEYS for negotiated in known], np.bool_)
        columns: _EncryptedRows | None = None
        bounds = [*starts.tolist(), len(rows)]
        for number in np.flatnonzero(~done.handled | rekeys | is_unknown | precedes_resumed).tolist():
            handshake, before = owners[number], len(self._records)
            if known[number] is UNKNOWN_KEYS or is_resumed[number]:  # it may continue one of those before
                known[number] = self._negotiated.get(handshake, first[number], with_nonces=ring.has_nonces)
            if not done.handled[number]:
                columns = columns or _EncryptedRows(self._state, self._encrypted, rows, self._identity)
                places = range(bounds[number], bounds[number + 1])
                self._decrypt_handshake(handshake, columns, places, ring, known[number])
            if rekeys[number] or precedes_resumed[number]:
                if done.handled[number]:
                    records = done.select(number)
                else:
                    records = make_records(self._records[before:])
                contents = DecodedMessageList(self._state, records)
                if rekeys[number]:
                    self._negotiated.add_rekeyed_sas(capture, contents)
                if precedes_resumed[number]:
                    self._negotiated.add_tickets(capture, known[number].suite, contents)
        self._add_from_bulk(done, owners)
        decrypted = done.records, make_records(self._records[already:])
        self._key_changes[owners] = find_key_changes(self._state, owners, known, decrypted)
        in_bulk = np.array(owners, np.int64)[done.undecrypted_number], done.undecrypted
        one_by_one = np.array(self._undecrypted, np.int64).reshape(-1, 2).T
        self._undecrypted.clear()
        handshakes, first_rows = np.concatenate([in_bulk, one_by_one], axis=1)
        if len(handshakes):
            self._report_undecrypted(handshakes, first_rows, _KeyChains(ring, owners, known), decrypted)
        self.findings += self._unusable
        self._unusable.clear()

    def _add_from_bulk(self, done: BulkDecryption, owners: Sequence[int]) -> None:
        """Add the messages that were decrypted in bulk; `owners`: the handshakes."""
        self._in_bulk.append(done.records)
        handshakes = np.array(owners, np.int64)
        for numbers in (done.number, done.undecrypted_number):
            self._messages += np.bincount(handshakes[numbers], minlength=len(self._messages))

    def _report_undecrypted(
        self, handshake: Int64Array, row: Int64Array, chains: _KeyChains, decrypted: Sequence[MessageRecords]
    ) -> None:
        """Add findings about messages with a wrong encryption key, or of which only others of the handshake decrypted.

        `row`: the row of a datagram of each message that could not be decrypted, those of one handshake together.
        `decrypted`: the messages that could be.
        """
        datagrams = self._state.datagrams
        stored, length = read_message_lengths(datagrams.datagram[row], (self._state.clear, self._encrypted))
        is_truncated = stored < length
        self.truncated.extend(datagrams.number[row[is_truncated]].tolist())
        handshake, row = handshake[~is_truncated], row[~is_truncated]
        partly = np.bincount(handshake, minlength=len(self._messages)) < self._messages
        if chains.ring.has_integrity_keys:
            has_wrong_key = self._report_wrong_keys(handshake, row, chains)
            handshake, row = handshake[~has_wrong_key], row[~has_wrong_key]
        handshake, row = handshake[partly[handshake]], row[partly[handshake]]
        if not len(row):
            return
        starts = np.flatnonzero(find_group_starts(handshake))
        before, after = self._find_missing_keys(handshake, row, decrypted)
        is_explained = np.logical_and.reduceat(before | after, starts)
        before, after = (np.logical_or.reduceat(missing, starts) & is_explained for missing in (before, after))
        what = list(zip(np.diff(starts, append=len(row)).tolist(), before.tolist(), after.tolist(), strict=True))
        texts = {arguments: describe_undecrypted(*arguments) for arguments in set(what)}
        places = zip(handshake[starts].tolist(), datagrams.number[row[starts]].tolist(), what, strict=True)
        self.findings.extend((number, frame, texts[arguments]) for number, frame, arguments in places)

    def _find_missing_keys(
        self, handshake: Int64Array, row: Int64Array, decrypted: Sequence[MessageRecords]
    ) -> tuple[BoolArray, BoolArray]:
        """Messages that are protected by keys with which no message of their IKE SA was decrypted. (messages,) each

        Arguments as in `_report_undecrypted`. Returns those protected by keys from before the last IKE_INTERMEDIATE
        exchange that changes them, and by keys from after it. Neither has IKE SAs whose keys did not change.
        """
        state, key_changes = self._state, self._key_changes
        last = count_key_changes(key_changes[handshake])
        message = state.message_of_datagram[row].astype(np.int64)
        epoch = find_protecting_epochs(state, message, key_changes[handshake])
        known = []
        for records in decrypted:
            owner = state.association.handshake[records.columns.row]
            changed = np.flatnonzero(key_changes[owner] > 0)
            epochs = find_epochs(state, records.columns.select(changed), key_changes[owner[changed]])
            known.append(owner[changed] * _EPOCHS + epochs)
        is_missing = (last > 0) & ~np.isin(handshake * _EPOCHS + epoch, np.concatenate(known))
        return is_missing & (epoch < last), is_missing & (epoch == last)

    def _report_wrong_keys(self, handshake: Int64Array, row: Int64Array, chains: "_KeyChains") -> BoolArray:
        """Add findings about messages whose SK_a is right and whose SK_e is wrong; returns which these are. (n,)

        Arguments as in `_report_undecrypted`.
        """
        datagrams, has_wrong_key = self._state.datagrams, np.zeros(len(row), np.bool_)
        frames: dict[tuple[int, str, SaKeyChain, bool], list[int]] = {}
        for place, (of_handshake, datagram) in enumerate(zip(handshake.tolist(), row.tolist(), strict=True)):
            chain = chains.get(of_handshake, int(datagrams.spi_i[datagram]), int(datagrams.spi_r[datagram]))
            from_initiator = bool(self._state.association.from_initiator[datagram])
            keys = chain.find_wrong_encryption_key(self._get_data(datagram), from_initiator)
            if keys is not None:
                has_wrong_key[place] = True
                group = of_handshake, str(keys.origin), chain, from_initiator
                frames.setdefault(group, []).append(int(datagrams.number[datagram]))
        for (of_handshake, origin, chain, from_initiator), numbers in frames.items():
            text = describe_wrong_key(origin, chain.spi_i, chain.spi_r, from_initiator, len(numbers))
            self.findings.append((of_handshake, min(numbers), text))
        return has_wrong_key

    def _decrypt_handshake(
        self, handshake: int, columns: _EncryptedRows, places: range, ring: KeyRing, negotiated: NegotiatedKeys
    ) -> None:
        """Decrypt the messages of one handshake, in order of time; `places`: of its datagrams in the columns."""
        tasks: dict[int, _DecryptionTask] = {}
        of_slot: dict[tuple[int, int], dict[int, _SlotFragment | None]] = {}  # by slot and total, by number
        chains: dict[tuple[int, int], SaKeyChain] = {}
        for place in places:
            row, number, total = columns.row[place], columns.number[place], columns.total[place]
            identity = columns.identity[place]
            task = tasks.get(identity)
            if task is None:
                task = tasks[identity] = _DecryptionTask(row)
            same_total = task.fragments is not None and task.fragments.total == total
            if task.done or (number and number in task.parts and same_total):
                continue
            data = columns.get_data(place) or self._get_data(row)
            spis = columns.spis[place]
            chain = chains.get(spis)
            if chain is None:
                chain = chains[spis] = ring.get_sa_keys(data[:8], data[8:16], negotiated.suite, negotiated.nonces)
            result = chain.decrypt(data, columns.from_initiator[place])
            if result is None:
                if task.failed is None and find_encrypted_payload(data) is not None:
                    task.failed = row
                continue
            decrypted, task.position = result
            if number:
                task.fragments = task.fragments or SkfReassembler()
                if total > task.fragments.total:
                    task.parts.clear()  # fragmented again, into smaller fragments
                if decrypted.verified:
                    _add_to_slot(of_slot.setdefault((columns.slot[place], total), {}), number, place, task, decrypted)
                if task.fragments.add(number, total, decrypted.first, decrypted.plaintext, decrypted.verified):
                    task.parts[number] = row
                complete = task.fragments.get_message()
                if complete is None:
                    continue
                decrypted = complete
            task.done = True
            parts = tuple(task.parts[part] for part in sorted(task.parts)) if number else (row,)
            key_set = chain.get_key_set(task.position)
            record = MessageRecord(
                message=columns.message[place],
                row=row,
                data=self._get_data(parts[0]) if number else data,
                datagrams=parts,
                decrypted=decrypted,
                # without the SPIs of a key set, the number of key sets before it is unknown
                position=-1 if key_set.spi_i is None else task.position,
                keys=key_set,
            )
            self._records.append(record)
        for (_, total), found in of_slot.items():
            self._combine_bodies(columns, total, found, chains)
        self._note_undecrypted(handshake, list(tasks.values()))
        first_frame = int(self._state.datagrams.number[columns.row[places[0]]])
        for chain in chains.values():
            self._unusable.extend((handshake, first_frame, text) for text in chain.unusable)

    def _combine_bodies(
        self,
        columns: _EncryptedRows,
        total: int,
        found: dict[int, _SlotFragment | None],
        chains: dict[tuple[int, int], SaKeyChain],
    ) -> None:
        """Reassemble a message whose fragments are in several bodies, because forged ones came between them.

        A receiver drops fragments with a wrong ICV, and uses all others (RFC 7383, section 2.6).
        """
        fragments = [fragment for _, fragment in sorted(found.items()) if fragment is not None]
        if len(fragments) < total or any(fragment.task.done for fragment in fragments):
            return
        last = max(fragment.place for fragment in fragments)
        task = next(fragment.task for fragment in fragments if fragment.place == last)
        parts = tuple(columns.row[fragment.place] for fragment in fragments)
        chain = chains[columns.spis[last]]
        key_set = chain.get_key_set(task.position)
        plaintext = b"".join(fragment.contents.plaintext for fragment in fragments)
        record = MessageRecord(
            message=columns.message[last],
            row=columns.row[last],
            data=self._get_data(parts[0]),
            datagrams=parts,
            decrypted=DecryptedMessage(plaintext, fragments[0].contents.first, verified=True),
            position=-1 if key_set.spi_i is None else task.position,
            keys=key_set,
        )
        self._records.append(record)
        for fragment in fragments:
            fragment.task.done = True
            self._bodies[columns.identity[fragment.place]] = columns.identity[last]

    def _note_undecrypted(self, handshake: int, tasks: Sequence[_DecryptionTask]) -> None:
        """Note the messages of one handshake that Python could not decrypt."""
        self._messages[handshake] = len(tasks)
        for task in tasks:
            if not task.done and task.fragments is not None and task.failed is None:
                frame = int(self._state.datagrams.number[task.first_row])
                self.findings.append((handshake, frame, _describe_missing_fragments(task.fragments)))
            elif not task.done:
                self._undecrypted.append((handshake, task.first_row if task.failed is None else task.failed))

    def _get_data(self, row: int) -> bytes:
        """The bytes of an encrypted message; those that begin with a clear payload are stored with clear messages."""
        begin, size = self._places
        if size[row]:
            return self._encrypted.heap[begin[row] : begin[row] + size[row]].tobytes()
        datagram = int(self._state.datagrams.datagram[row])
        data = self._encrypted.get(datagram)
        return self._state.clear[datagram] if data is None else data

    def _read_cleartext_messages(self, handshakes: BoolArray, decrypted: BoolArray) -> list[MessageRecords]:
        """The clear IKE messages of these handshakes. (handshakes,)

        `decrypted`: messages that were decrypted, by identity.
        """
        state, datagrams = self._state, self._state.datagrams
        begin, size = state.clear.places(datagrams.datagram)
        wanted = handshakes[state.association.handshake] & (datagrams.protocol != Protocol.HIP) & (size > 0)
        # fragments of IKEv1 are stored whether or not the message is clear
        reassembled = np.zeros(len(datagrams), np.bool_)
        reassembled[list(state.reassembled)] = True
        wanted &= reassembled | ~find_ikev1_fragments(datagrams)
        rows = np.flatnonzero(wanted)
        identity = self._identity[state.message_of_datagram[rows]]
        # the first transmission of each message
        first = np.full(len(decrypted), len(rows))
        first[identity[::-1]] = np.arange(len(rows))[::-1]
        rows = rows[(first[identity] == np.arange(len(rows))) & ~decrypted[identity]]
        message = state.message_of_datagram
        whole = rows[~reassembled[rows]]
        joined = [
            MessageRecord(int(message[row]), row, state.reassembled[row].data, state.reassembled[row].datagrams)
            for row in rows[reassembled[rows]].tolist()
        ]
        return [
            make_clear_records(message[whole], whole, state.clear.heap, begin[whole], size[whole]),
            make_records(joined),
        ]


def _add_to_slot(
    found: dict[int, _SlotFragment | None], number: int, place: int, task: _DecryptionTask, contents: DecryptedMessage
) -> None:
    """Add a decrypted fragment to those of its slot; None: two fragments of this number have other contents."""
    before = found.setdefault(number, _SlotFragment(place, task, contents))
    if before is not None and before.contents != contents:
        found[number] = None


def _describe_missing_fragments(fragments: SkfReassembler) -> str:
    missing = fragments.get_missing_ranges()
    ranges = (str(part[0]) if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in missing[:_MAX_RANGES])
    more = f" and {len(missing) - _MAX_RANGES} more ranges" if len(missing) > _MAX_RANGES else ""
    subject, verb = ("fragment", "is") if sum(map(len, missing)) == 1 else ("fragments", "are")
    return f"{subject} {', '.join(ranges)}{more} of {fragments.total} {verb} missing: the message cannot be reassembled"
