"""Encrypted messages to their contents, with the keys that fit.

Each distinct message is opened once: of several transmissions the first that can be, and of a message in fragments
each fragment from whichever transmission has it. Messages are taken in order of time, IKE SA by IKE SA, which is the
order that the chain of key sets of an IKE SA wants (`keys.chain`).

The epoch is counted as the protocol has it: the n-th IKE_INTERMEDIATE exchange, which has message ID n, is protected by
the keys before its additional key exchange, whatever comes behind by those of the last one (RFC 9242, section 3; RFC
9370, section 2.2.2). Key sets whose files lack some epochs are told apart that way. Where IKE_SA_INIT is not in the
capture, the place among the key sets that name the IKE SA tells.

What a CREATE_CHILD_SA exchange agreed on for the IKE SA that it makes takes the place of IKE_SA_INIT there (RFC 7296,
section 2.18).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage, DecodedMessages
from ikeanalyze.analysis.decryption.decrypt_ikev1 import decrypt_phase1
from ikeanalyze.analysis.exchanges.init_messages import InitMessages
from ikeanalyze.analysis.grouping import argsort_stable
from ikeanalyze.analysis.handshakes.rekeying import find_rekeyed_sas
from ikeanalyze.analysis.messages.datagrams import IKEV1_ENCRYPTED
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import BoolArray, Int64Array
from ikeanalyze.capture.buffers import MessageBytes
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.crypto.algorithms import get_suite
from ikeanalyze.crypto.sk_payload import DecryptedMessage, IkeSuite, find_encrypted_payload
from ikeanalyze.crypto.skf_fragments import SkfReassembler
from ikeanalyze.keys.key_ring import KeyRing, SaKeyChain
from ikeanalyze.keys.key_set import KeySet, Phase1Key
from ikeanalyze.wire.header import HEADER
from ikeanalyze.wire.ikev2.message import InitMessage, parse_decrypted_payloads, parse_init, parse_payloads
from ikeanalyze.wire.registries.ikev2 import ExchangeType, PayloadType
from ikeanalyze.wire.registries.ikev2_transforms import TransformType

_SEALED = frozenset({PayloadType.SK, PayloadType.SKF})
_INITS = frozenset({ExchangeType.IKE_SA_INIT, ExchangeType.IKE_SESSION_RESUME})
_ADDKES = range(TransformType.ADDKE1, TransformType.ADDKE7 + 1)
_LENGTH = slice(24, 28)  # of the message, in the IKE header
#: Runs of fragment numbers that a finding names.
_RUNS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class CaptureKeys:
    """What was read from key files, in their order."""

    sets: Sequence[KeySet] = ()
    phase1: Sequence[Phase1Key] = ()

    def __bool__(self) -> bool:
        return bool(self.sets or self.phase1)

    def get_spis(self) -> frozenset[int] | None:
        """Initiators' SPIs of the IKE SAs that the keys are for; None: some keys do not say."""
        known = [one.spi_i for one in self.sets] + [one.cookie_i for one in self.phase1]
        if any(one is None for one in known):
            return None
        return frozenset(int.from_bytes(one, "big") for one in known if one is not None)


NO_KEYS = CaptureKeys()


@dataclass(slots=True)
class _DecryptionTask:
    """One distinct message that is to be opened: a slot and body of `Messages`."""

    unit: int  # row of its first unit
    fragments: SkfReassembler | None = None
    parts: dict[int, int] = field(default_factory=dict)  # row of the unit that each fragment was taken from
    position: int = 0
    done: bool = False


def decrypt_messages(
    conversation: AnalysisState, sealed: MessageBytes, keys: Sequence[CaptureKeys], *, every: bool = False
) -> DecodedMessages:
    """Open what the keys fit; `sealed` has the bytes of the encrypted messages, by unit, `keys` are those of each capture.

    Clear messages of the handshakes of which something could be opened are looked into as well; `every`: those of all.
    """
    work = _DecryptionState(conversation, sealed)
    units, handshake = conversation.units, conversation.association.handshake
    rows = np.zeros(0, np.int64)
    if any(one.sets for one in keys):
        _, size = sealed.places(units.unit)
        rows = np.flatnonzero(((size > 0) | _behind_clear(conversation)) & ~units.is_ikev1)
        rows = rows[argsort_stable(handshake[rows])]
    # handshakes of one capture stand together
    ends = np.searchsorted(conversation.capture[handshake[rows]], np.arange(1, len(keys)))
    agreements = _NegotiatedKeysLookup(conversation)
    looked = set(range(conversation.association.count)) if every else set()
    findings: list[list[tuple[int, str]]] = []
    for capture, (own, some) in enumerate(zip(keys, np.split(rows, ends), strict=True)):
        work.findings, work.cut = [], []
        if own:
            looked |= _open_capture(work, agreements, own, capture, some)
        findings.append(work.findings)
    work.add_cleartext_messages(looked)
    asked = np.array([every or bool(one) for one in keys])
    return DecodedMessages(work.of_message(), work.all, work.sealed(asked), work.opened(), findings)


def _open_capture(
    work: "_DecryptionState", agreements: "_NegotiatedKeysLookup", keys: CaptureKeys, capture: int, rows: Int64Array
) -> set[int]:
    """Open what the keys of one capture fit; `rows` are its units that may be opened, handshake by handshake.

    Returns the handshakes of which something was opened.
    """
    opened: set[int] = set()
    ring = KeyRing(keys.sets)
    owner = work.conversation.association.handshake[rows]
    for some in np.split(rows, np.flatnonzero(np.diff(owner)) + 1) if keys.sets else ():
        if len(some):
            handshake = int(work.conversation.association.handshake[some[0]])
            before = len(work.all)
            if work.open(handshake, some.tolist(), ring, agreements):
                opened.add(handshake)
                agreements.add_rekeyed_sas(capture, work.all[before:])
    phase1 = decrypt_phase1(work.conversation, work.sealed_bytes, capture, keys.phase1, work.add)
    opened |= phase1.handshakes
    work.findings.extend(phase1.findings)
    work.cut.extend(phase1.cut)
    work.report_truncated()
    said = {what for _, what in work.findings}
    work.findings.extend((0, what) for what in ring.unusable if what not in said)
    return opened


def _behind_clear(conversation: AnalysisState) -> BoolArray:
    """Units that begin with a clear payload and have SK behind it (RFC 7296, section 3.14)."""
    units, clear = conversation.units, conversation.clear
    _, size = clear.places(units.unit)
    found = np.zeros(len(units), np.bool_)
    may = (size > 0) & ~units.is_ikev1 & (units.next_payload != 0)
    for row in np.flatnonzero(may & ~np.isin(units.exchange_type, list(_INITS))).tolist():
        sealed = find_encrypted_payload(clear[int(units.unit[row])])
        found[row] = sealed is not None and sealed.fragment is None
    return found


@dataclass(frozen=True, slots=True)
class _NegotiatedKeys:
    """What the messages that made one IKE SA say about its keys."""

    suite: IkeSuite | None
    nonces: bytes | None
    additional: int | None  # additional key exchanges in IKE_INTERMEDIATE; None: not known


class _NegotiatedKeysLookup:
    """Looked up for those IKE SAs alone that have messages to be opened."""

    def __init__(self, conversation: AnalysisState) -> None:
        self._conversation = conversation
        inits: InitMessages = conversation.inits
        self._rows: dict[int, list[int]] = {}
        for row, handshake in zip(
            inits.rows.tolist(), conversation.association.handshake[inits.rows].tolist(), strict=True
        ):
            self._rows.setdefault(handshake, []).append(row)
        self._rekeyed: dict[tuple[int, int, int], _NegotiatedKeys] = {}  # by capture and SPIs

    def add_rekeyed_sas(self, capture: int, contents: Sequence[DecodedMessage]) -> None:
        """Note what the contents of one handshake say of IKE SAs that replace its own."""
        for one in find_rekeyed_sas(sorted(contents, key=lambda content: (content.exchange, content.response))):
            self._rekeyed[capture, one.spi_i, one.spi_r] = _NegotiatedKeys(get_suite(one.chosen), one.nonces, 0)

    def get(self, handshake: int, row: int) -> _NegotiatedKeys:
        """Of the last IKE_SA_INIT request and response that are there; `row`: of a unit with both SPIs."""
        request, response = None, None
        for row in self._rows.get(handshake, ()):
            data = self._conversation.clear.get(int(self._conversation.units.unit[row]))
            if data is None:
                continue
            view = parse_init(data)
            if view.nonce is None:
                continue
            if self._conversation.units.is_response[row]:
                response = view
            else:
                request = view
        nonces = None
        if request and response and request.nonce and response.nonce:
            nonces = request.nonce + response.nonce
        if response is None:
            units = self._conversation.units
            capture = int(self._conversation.capture[handshake])
            found = self._rekeyed.get((capture, int(units.spi_i[row]), int(units.spi_r[row])))
            return found or _NegotiatedKeys(None, None, None)
        return _NegotiatedKeys(get_suite(response.chosen), nonces, _additional(response))


def _additional(view: InitMessage) -> int:
    if view.chosen is None:
        return 0
    return len({one.type for one in view.chosen.transforms if one.type in _ADDKES and one.id})


class _DecryptionState:
    """What has been opened so far."""

    def __init__(self, conversation: AnalysisState, sealed: MessageBytes) -> None:
        self.conversation = conversation
        self.sealed_bytes = sealed
        self.all: list[DecodedMessage] = []
        self.findings: list[tuple[int, str]] = []  # of one capture
        messages = conversation.messages
        #: (slot, body) of each message: the same for all its transmissions
        self._identity = list(zip(messages.slot.tolist(), messages.body.tolist(), strict=True))
        self._content: dict[tuple[int, int], int] = {}
        self.cut: list[int] = []  # frames of encrypted messages of which that capture has not all bytes

    def of_message(self) -> Int64Array:
        """For each row of Messages: index into `all`, -1: none."""
        found = [self._content.get(identity, -1) for identity in self._identity]
        return np.array(found, np.int64)

    def opened(self) -> BoolArray:
        """For each row of Messages: whether it was encrypted and is not any more."""
        encrypted = np.array([*(one.encrypted for one in self.all), False], np.bool_)
        return encrypted[self.of_message()] if len(self._identity) else np.zeros(0, np.bool_)

    def sealed(self, asked: BoolArray) -> BoolArray:
        """For each row of Messages: whether it was sent encrypted, in one of the captures that are asked for."""
        units = self.conversation.units
        encrypted = np.where(
            units.is_ikev1,
            units.flags & IKEV1_ENCRYPTED != 0,
            np.isin(units.next_payload, (PayloadType.SK, PayloadType.SKF)),
        )
        encrypted &= asked[self.conversation.capture[self.conversation.association.handshake]]
        result = self.opened()  # clear payloads may stand before SK
        result[self.conversation.message_of_unit[encrypted]] = True
        return result

    def open(self, handshake: int, rows: list[int], ring: KeyRing, agreements: _NegotiatedKeysLookup) -> bool:
        """Open the messages of one handshake, in order of time; whether any could be."""
        conversation, units = self.conversation, self.conversation.units
        agreement = agreements.get(handshake, rows[0])
        wanted: dict[tuple[int, int], _DecryptionTask] = {}
        chains: dict[tuple[int, int], SaKeyChain] = {}
        before = len(self.all)
        for row in rows:
            message = int(conversation.message_of_unit[row])
            one = wanted.setdefault(self._identity[message], _DecryptionTask(row))
            number = int(units.fragment[row])
            same_cut = one.fragments is not None and one.fragments.total == units.fragments[row]
            if one.done or (number and number in one.parts and same_cut):
                continue
            data = self._data(row)
            spis = int(units.spi_i[row]), int(units.spi_r[row])
            chain = chains.get(spis)
            if chain is None:
                chain = ring.get_sa_keys(data[:8], data[8:16], agreement.suite, agreement.nonces)
                chains[spis] = chain
            found = chain.decrypt(data, bool(conversation.association.from_initiator[row]))
            if found is None:
                continue
            opened, position = found
            one.position = position
            if number:
                one.fragments = one.fragments or SkfReassembler()
                total = int(units.fragments[row])
                if total > one.fragments.total:
                    one.parts.clear()  # cut anew
                if one.fragments.add(number, total, opened.first, opened.plaintext, opened.verified):
                    one.parts[number] = row
                whole = one.fragments.get_message()
                if whole is None:
                    continue
                opened = whole
            else:
                one.parts = {0: row}
            one.done = True
            self._enter(handshake, row, one, opened, agreement, chain)
        self._tell_closed(wanted)
        for chain in chains.values():
            self.findings.extend((int(units.number[rows[0]]), what) for what in chain.unusable)
        return len(self.all) > before

    def _enter(
        self,
        handshake: int,
        row: int,
        wanted: _DecryptionTask,
        opened: DecryptedMessage,
        agreement: _NegotiatedKeys,
        chain: SaKeyChain,
    ) -> None:
        """Enter the content of an encrypted message; `row` is that of the last unit that it was taken from."""
        conversation = self.conversation
        units, messages = conversation.units, conversation.messages
        message = int(conversation.message_of_unit[row])
        first = self._data(wanted.parts[min(wanted.parts)])
        clear = tuple(payload for payload in parse_payloads(first).payloads if payload.type not in _SEALED)
        inner = parse_decrypted_payloads(opened.plaintext, opened.first)
        kind, message_id = int(messages.exchange_type[message]), int(messages.message_id[message])
        content = DecodedMessage(
            handshake=handshake,
            exchange=int(conversation.exchange_of_message[message]),
            protocol=Protocol.IKEV2,
            exchange_type=kind,
            message_id=message_id,
            from_initiator=bool(messages.from_initiator[message]),
            response=bool(messages.response[message]),
            set_up=self._set_up(message),
            frame=int(units.number[row]),
            header=first[: HEADER.size],
            payloads=clear + inner.payloads,
            error=inner.error,
            encrypted=True,
            epoch=_epoch(kind, message_id, agreement, chain, wanted.position),
            verified=opened.verified,
            clear=len(clear),
            first=opened.first,
            plaintext=opened.plaintext,
            units=tuple(wanted.parts[number] for number in sorted(wanted.parts)),
            keys=chain.key_sets[wanted.position],
        )
        self.add(message, content)

    def _data(self, row: int) -> bytes:
        """The bytes of an encrypted message; those that begin with a clear payload are kept among the clear ones."""
        unit = int(self.conversation.units.unit[row])
        data = self.sealed_bytes.get(unit)
        return self.conversation.clear[unit] if data is None else data

    def add(self, message: int, content: DecodedMessage) -> None:
        """Enter the content of a row of Messages, and so of its other transmissions."""
        self._content[self._identity[message]] = len(self.all)
        self.all.append(content)

    def add_cleartext_messages(self, handshakes: set[int]) -> None:
        """Enter the clear messages of IKEv2 of these handshakes."""
        conversation = self.conversation
        units, messages = conversation.units, conversation.messages
        _, size = conversation.clear.places(units.unit)
        wanted = np.isin(conversation.association.handshake, np.fromiter(handshakes, np.int64, len(handshakes)))
        wanted &= units.protocol != Protocol.HIP
        for row in np.flatnonzero((size > 0) & wanted).tolist():
            message = int(conversation.message_of_unit[row])
            if self._identity[message] in self._content:
                continue
            data = conversation.clear[int(units.unit[row])]
            chain = parse_payloads(data)
            error = chain.error and (_cut(data) or chain.error)
            self.add(
                message,
                DecodedMessage(
                    handshake=int(conversation.association.handshake[row]),
                    exchange=int(conversation.exchange_of_message[message]),
                    protocol=int(messages.protocol[message]),
                    exchange_type=int(messages.exchange_type[message]),
                    message_id=int(messages.message_id[message]),
                    from_initiator=bool(messages.from_initiator[message]),
                    response=bool(messages.response[message]),
                    set_up=self._set_up(message),
                    frame=int(units.number[row]),
                    header=data[: HEADER.size],
                    payloads=chain.payloads,
                    error=error,
                    encrypted=False,
                    epoch=None,
                    verified=None,
                    clear=len(chain.payloads),
                    first=0,
                    plaintext=b"",
                    units=(row,),
                ),
            )

    def report_truncated(self) -> None:
        """One finding about all encrypted messages of which the capture lacks bytes."""
        if self.cut:
            count = len(self.cut)
            some = "1 encrypted message is" if count == 1 else f"{count} encrypted messages are"
            what = f"{some} not whole in the capture: what is cut cannot be decrypted"
            self.findings.append((min(self.cut), what))

    def _set_up(self, message: int) -> bool:
        conversation = self.conversation
        return bool(conversation.exchanges.set_up[conversation.exchange_of_message[message]])

    def _tell_closed(self, wanted: dict[tuple[int, int], _DecryptionTask]) -> None:
        """Findings about what could not be opened, though something of the IKE SA, or of its messages, could."""
        numbers = self.conversation.units.number
        closed = [one for one in wanted.values() if not one.done]
        unfit = []
        for one in closed:
            if one.fragments is not None:
                missing = one.fragments.get_missing_ranges()
                some = ", ".join(_run(run) for run in missing[:_RUNS_SHOWN])
                more = f" and {len(missing) - _RUNS_SHOWN} more runs" if len(missing) > _RUNS_SHOWN else ""
                total = one.fragments.total
                what = f"fragments {some}{more} of {total} are missing: the message cannot be put together"
                self.findings.append((int(numbers[one.unit]), what))
                continue
            if _cut(self._data(one.unit)):
                self.cut.append(int(numbers[one.unit]))
            else:
                unfit.append(one)
        if unfit and len(unfit) < len(wanted):
            some = "1 message is" if len(unfit) == 1 else f"{len(unfit)} messages are"
            what = f"{some} opened by no key, though others of the IKE SA are"
            self.findings.append((int(numbers[unfit[0].unit]), what))


def _cut(data: bytes) -> str | None:
    """What a message lacks at its end, by the length in its header; None: nothing."""
    length = int.from_bytes(data[_LENGTH], "big")
    return f"only {len(data)} of {length} bytes are in the capture" if len(data) < length else None


def _run(run: range) -> str:
    return str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}"


def _epoch(kind: int, message_id: int, agreement: _NegotiatedKeys, chain: SaKeyChain, position: int) -> int | None:
    """Of the keys of one message; `position`: in its chain of key sets."""
    additional, before = agreement.additional, max(message_id - 1, 0)
    if kind == ExchangeType.IKE_INTERMEDIATE:
        return before if additional is None else min(before, additional)
    if additional is None:
        # a set that does not name its IKE SA does not tell how many came before it either
        return position if chain.key_sets[position].spi_i is not None else None
    return additional
