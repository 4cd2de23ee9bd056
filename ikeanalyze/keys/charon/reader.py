"""Read charon logs with `ike = 4`: keys of IKEv2 and IKEv1, and the values that verify them.

A key derivation is a sequence of dumps of one thread, in this order:

    key exchange secret (5.9: shared Diffie Hellman secret), additional key exchange secret, nonces, SKEYSEED,
    Sk_d, Sk_ai, Sk_ar, Sk_ei, Sk_er, Sk_pi, Sk_pr secret

It does not name the IKE SA. The IKE SA follows from the nonces, which stay the same over the additional key exchanges
of IKE_INTERMEDIATE; from the number of the IKE SA in the line, or the IKE SA that the thread has checked out; and
afterwards from the signed octets of IKE_AUTH, which begin with an IKE header with the SPIs and are logged together with
the SK_pi or SK_pr that they include. Otherwise the SPIs stay unknown.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ikeanalyze.keys.charon.lines import LogMessage, LogMessageReader, Thread
from ikeanalyze.keys.charon.model import (
    CharonLog,
    LoggedAuth,
    LoggedDerivation,
    LoggedIntAuth,
    LoggedPhase1Key,
    LoggedSa,
    PpkKeys,
)
from ikeanalyze.keys.charon.resolve import LogRecords, resolve_records
from ikeanalyze.keys.collector import KeyCollector

#: The dumps of a derivation: position, positions that may precede it, and the name in `LoggedDerivation.values`.
#: Dumps in another order come from several threads.
_DERIVATION: Final[Mapping[bytes, tuple[int, frozenset[int], str]]] = {
    b"key exchange secret": (0, frozenset(), "secret"),
    b"shared Diffie Hellman secret": (0, frozenset(), "secret"),
    b"derive keys using PPK": (0, frozenset(), "ppk"),
    b"additional key exchange secret": (1, frozenset({0}), "additional"),
    b"nonces": (2, frozenset({0, 1}), "nonces"),
    b"SKEYSEED": (3, frozenset({0, 1, 2}), "skeyseed"),
    b"Sk_d secret": (4, frozenset({0, 3}), "sk_d"),
    b"Sk_ai secret": (5, frozenset({4}), "sk_ai"),
    b"Sk_ar secret": (6, frozenset({5}), "sk_ar"),
    b"Sk_ei secret": (7, frozenset({4, 6}), "sk_ei"),
    b"Sk_er secret": (8, frozenset({7}), "sk_er"),
    b"Sk_pi secret": (9, frozenset({4, 8}), "sk_pi"),
    b"Sk_pr secret": (10, frozenset({9}), "sk_pr"),
}
_LAST_START: Final = 4  # a derivation may begin with any dump up to this position, because those before are optional
_LAST_POSITION: Final = 10
#: Dumps after which keys follow; a secret may also be one of a CHILD_SA or of IKEv1.
_BEGINS_KEYS: Final = frozenset({"nonces", "skeyseed", "sk_d"})

_CREATED: Final = re.compile(rb"IKE_SA .*\[(\d{1,10})\] state change: CREATED => CONNECTING$")
_DESTROYED: Final = re.compile(rb"IKE_SA .*\[(\d{1,10})\] state change: \w+ => DESTROYING$")
_CHECKED_OUT: Final = re.compile(rb"IKE_SA .*\[(\d{1,10})\] successfully checked out$")
_NEW: Final = re.compile(rb"created IKE_SA .*\[(\d{1,10})\]$")
_CHECKED_IN: Final = re.compile(rb"checkin IKEv[12] SA .*\[(\d{1,10})\] with SPIs ([0-9a-f]{16})_i ([0-9a-f]{16})_r$")
_STARTED: Final = re.compile(rb"Starting .*\(strongSwan [\w.+-]")
_METHOD: Final = re.compile(rb"authentication of '.*' (\(myself\) )?with (pre-shared key|EAP)( successful)?$")
_SELECTED: Final = re.compile(rb"selected proposal: IKE:(\S{1,400})$")

#: The beginning of the messages that are parsed, other than dumps.
#: With phrases, they contain one of them.
_MESSAGES: Final[tuple[tuple[bytes, tuple[bytes, ...]], ...]] = (
    (b"received packet", ()),
    (b"parsed ", ()),
    (b"selected proposal: IKE:", ()),
    (b"created IKE_SA", ()),
    (b"checkin IKEv", ()),
    (b"checkout ", ()),
    (b"authentication of '", ()),
    (b"IKE_SA ", (b"CREATED => CONNECTING", b"=> DESTROYING", b"successfully checked out")),
    (b"Starting ", (b"(strongSwan ",)),
)
_TEXT: Final = b"|".join(
    re.escape(beginning) + (rb"[^\n]*(?:%b)" % b"|".join(map(re.escape, phrases)) if phrases else b"")
    for beginning, phrases in _MESSAGES
)
_PARSED: Final = re.compile(_TEXT)
_ZEROS: Final = bytes(8)
_MAX_REMEMBERED: Final = 65_536  # IKE SAs and threads


@dataclass(slots=True)
class _ThreadState:
    """The state of a thread."""

    checked_out: int | None = None  # number of the IKE SA, in logs without the number in each line
    sa: LoggedSa | None = None  # of the message being processed, by the SPIs hashed for NAT detection
    hashed_back: bool = False  # it compared the hashes afterwards: the initiator, which processes the response
    proposal: str | None = None
    block: LoggedDerivation | None = None
    position: int = -1  # in `_DERIVATION`, of the last dump of the block
    latest: LogMessage | None = None  # message of that dump
    repeatable: LogMessage | None = None  # the last dump, unless other messages follow it
    settled: bool = False  # the keys to which further dumps belong are used, or a warning says that they are not
    mixed: bool = False  # the log does not name threads, and dumps of two derivations are interleaved
    phase1: LoggedPhase1Key | None = None  # whose cookie is still unknown
    secret_size: int = 0  # bytes of the last Diffie-Hellman secret
    int_auth: LoggedIntAuth | None = None
    auth: LoggedAuth | None = None  # the last one, which later dumps complete
    identity: bytes = field(default=b"", repr=False)
    sk_p: bytes = field(default=b"", repr=False)
    method: str | None = None  # of the next AUTH payload, which this daemon sends


class CharonReader:
    """Reads lines and adds keys to `collector` at the end of the log."""

    def __init__(self, collector: KeyCollector) -> None:
        self._collector = collector
        self._threads: dict[Thread, _ThreadState] = {}
        self._numbered: dict[tuple[bytes, int], LoggedSa] = {}
        self._by_spis: dict[tuple[bytes, bytes, bytes], LoggedSa] = {}
        self._by_nonces: dict[tuple[bytes, bytes], LoggedSa] = {}
        self._records = LogRecords()
        self._selections: set[str] = set()  # the proposals selected so far, at most two
        self._dumps: dict[bytes, Callable[[LogMessage, bytes, _ThreadState], None]] = {
            b"natd_chunk": self._read_nat_hash_input,
            b"precalculated src_hash": self._note_hash_comparison,
            b"encryption key Ka": self._add_phase1_key,
            b"HASH_I data": self._read_phase1_hash_input,
            b"HASH_R data": self._read_phase1_hash_input,
            b"IntAuth_N-1": self._begin_int_auth,
            b"IntAuth_A|P": self._add_int_auth_data,
            b"SK_p": self._keep_sk_p,
            b"IntAuth_N = prf(Sk_px, data)": self._end_int_auth,
            b"IDx'": self._keep_identity,
            b"octets = message + nonce + prf(Sk_px, IDx')": self._begin_auth,
            b"octets = message + nonce + prf(Sk_px, IDx') + IntAuth": self._begin_auth,
            b"secret": self._add_auth_secret,
            b"AUTH = prf(prf(secret, keypad), octets)": self._add_auth_value,
            b"MSK": self._add_msk,
            b"EAP MSK": self._add_msk,
        }
        self._labels = [*_DERIVATION, *self._dumps]
        self._lines = LogMessageReader(self._labels, _TEXT)

    @property
    def text_pattern(self) -> bytes:
        """Pattern of the messages that matter; the first group is the label of a dump."""
        return self._lines.text_pattern

    @property
    def expects_lines(self) -> bool:
        """Whether each line matters, because a dump is incomplete."""
        return self._lines.has_incomplete_dumps

    def feed(self, number: int, line: bytes) -> bool:
        """Read a line; returns whether charon wrote it."""
        ours, messages = self._lines.feed(number, line)
        for message in messages:
            self._handle_message(message)
        return ours

    @property
    def wanted(self) -> tuple[list[bytes], tuple[tuple[bytes, tuple[bytes, ...]], ...]]:
        """What matters: labels of dumps, and the beginnings and phrases of messages."""
        return self._labels, _MESSAGES

    def use_dump(self, number: int, before: bytes, label: int, data: bytes, indented: bool | None) -> bool:
        """Use a whole dump that was found in a block; returns False if its lines must be read one by one.

        `label` is an index of `wanted`; the others are those of `LogMessageReader.make_dump`.
        """
        message = self._lines.make_dump(number, before, self._labels[label], data, indented)
        if message is None:
            return False
        self._handle_dump(message)
        return True

    def use_text(self, number: int, before: bytes, text: bytes) -> bool:
        """Use a message, `text` after `before`, that was found in a block; returns False: read its line."""
        message = self._lines.make_text(number, before, text)
        if message is None:
            return False
        self._handle_text(message)
        return True

    def finish(self) -> CharonLog | None:
        """Add the keys to the collector and return the other values; None if the log has neither."""
        for message in self._lines.finish():
            self._handle_message(message)
        for thread in list(self._threads.values()):
            self._end_block(thread)
        keys = self._collector.key_count
        log = self._records.log
        resolve_records(self._records, self._collector)
        if self._collector.key_count > keys or log.auths or log.int_auths:
            self._collector.add_format("charon log")
            return log
        return None

    def _handle_message(self, message: LogMessage) -> None:
        if message.dump:
            self._handle_dump(message)
        elif _PARSED.match(message.text):
            self._handle_text(message)

    def _handle_dump(self, message: LogMessage) -> None:
        text, data = message.text, message.data
        if message.group not in (None, b"IKE"):
            return
        if data is None:
            self._collector.warn(
                message.line, f'the hex dump of "{text.decode("ascii", "replace")}" is incomplete; not used'
            )
        thread = self._get_thread(message)
        before, thread.repeatable = thread.repeatable, message
        if before is not None and data is not None and before.data == data and before.text == text:
            return  # logged twice, such as to two facilities of syslog
        place = _DERIVATION.get(text)
        if place is not None:
            self._add_to_derivation(message, place, thread)
        elif data is not None:
            self._dumps[text](message, data, thread)

    # Messages other than dumps

    def _handle_text(self, message: LogMessage) -> None:
        text, thread = message.text, self._get_thread(message)
        thread.repeatable = None
        process = message.thread[0]
        if text.startswith((b"received packet", b"parsed ")):
            thread.sa, thread.hashed_back, thread.proposal, thread.phase1 = None, False, None, None
        elif text.startswith(b"selected proposal"):
            if selected := _SELECTED.match(text):
                self._note_proposal(message, thread, selected[1].decode("ascii", "replace"))
        elif text.startswith(b"authentication of"):
            if method := _METHOD.match(text):
                self._note_auth_method(thread, own=method[1] is not None, name=method[2].decode())
        elif text.startswith(b"Starting "):
            if _STARTED.match(text):
                self._handle_restart(process)
        elif text.startswith(b"checkout "):
            thread.checked_out = None
        elif checked_in := _CHECKED_IN.match(text):
            if checked_in[3] != b"0" * 16:
                sa = self._get_sa(process, int(checked_in[1]))
                sa.spi_i, sa.spi_r = (bytes.fromhex(spi.decode()) for spi in checked_in.group(2, 3))
        elif checked_out := _CHECKED_OUT.match(text):
            thread.checked_out = int(checked_out[1])
        elif new := _NEW.match(text):
            if thread.checked_out is None:
                thread.checked_out = int(new[1])
        elif created := _CREATED.match(text):
            number = message.sa or thread.checked_out
            if number is not None and number != int(created[1]):
                sa = self._get_sa(process, number)
                # Two children: both peers rekey at the same time, and the order of their derivations is unknown.
                sa.child = int(created[1]) if sa.child is None else 0
        elif destroyed := _DESTROYED.match(text):
            self._numbered.pop((process, int(destroyed[1])), None)

    def _note_proposal(self, message: LogMessage, thread: _ThreadState, text: str) -> None:
        thread.proposal = text
        if len(self._selections) < 2:
            self._selections.add(text)
        if (sa := self._find_named_sa(message, thread)) is not None:
            sa.latest = text
            if sa.child:
                self._get_sa(message.thread[0], sa.child).latest = text

    def _get_current_proposal(self, message: LogMessage, thread: _ThreadState) -> str | None:
        """The proposal of the message being processed; in logs without threads, only if a single one was selected."""
        return thread.proposal if message.thread[1] is not None or len(self._selections) == 1 else None

    def _note_auth_method(self, thread: _ThreadState, *, own: bool, name: str) -> None:
        if own:
            thread.method = name
        elif thread.auth is not None and thread.auth.method is None:
            thread.auth.method = name

    def _handle_restart(self, process: bytes) -> None:
        """The daemon starts: thread and IKE SA numbers are assigned again."""
        for key in [key for key in self._threads if key[0] == process]:
            self._end_block(self._threads.pop(key))
        for numbered in [key for key in self._numbered if key[0] == process]:
            del self._numbered[numbered]

    # IKE SAs

    def _get_thread(self, message: LogMessage) -> _ThreadState:
        thread = self._threads.get(message.thread)
        if thread is None:
            if len(self._threads) >= _MAX_REMEMBERED:
                self._end_block(self._threads.pop(next(iter(self._threads))))
            thread = self._threads[message.thread] = _ThreadState()
        return thread

    def _get_sa(self, process: bytes, number: int) -> LoggedSa:
        key = (process, number)
        sa = self._numbered.get(key)
        if sa is None:
            _drop_oldest(self._numbered)
            sa = self._numbered[key] = LoggedSa()
        return sa

    def _find_named_sa(self, message: LogMessage, thread: _ThreadState) -> LoggedSa | None:
        """The IKE SA that the line, or the thread's last checkout, names."""
        number = message.sa if message.sa is not None else thread.checked_out
        return None if number is None else self._get_sa(message.thread[0], number)

    def _read_nat_hash_input(self, message: LogMessage, data: bytes, thread: _ThreadState) -> None:
        """The input of the hash of NAT detection: SPIi | SPIr | address | port (RFC 7296, section 2.23)."""
        spi_i, spi_r = data[:8], data[8:16]
        if len(spi_r) < 8 or spi_r == _ZEROS:
            return
        process = message.thread[0]
        sa = self._find_named_sa(message, thread)
        if sa is not None and sa.spi_i not in (None, spi_i) and sa.derived:
            # A new attempt under the same number.
            sa = self._numbered[process, message.sa or thread.checked_out or 0] = LoggedSa(latest=sa.latest)
        if sa is None:
            _drop_oldest(self._by_spis)
            sa = self._by_spis.setdefault((process, spi_i, spi_r), LoggedSa())
        sa.spi_i, sa.spi_r = spi_i, spi_r
        thread.sa = sa
        if thread.phase1 is not None:
            thread.phase1.cookie_i, thread.phase1 = spi_i, None
        if (selected := self._get_current_proposal(message, thread)) is not None:
            sa.latest = selected
            self._records.proposals[spi_i, spi_r] = selected

    def _note_hash_comparison(self, message: LogMessage, data: bytes, thread: _ThreadState) -> None:  # noqa: ARG002
        thread.hashed_back = thread.sa is not None

    def _find_owner(self, message: LogMessage, thread: _ThreadState, nonces: bytes | None) -> LoggedSa:
        """The IKE SA of the keys that were just derived."""
        process = message.thread[0]
        if nonces and (known := self._by_nonces.get((process, nonces))) is not None:
            return known
        sa = self._find_named_sa(message, thread)
        if sa is None and thread.hashed_back and message.thread[1] is not None:
            sa = thread.sa
        if sa is None:
            return LoggedSa()
        if sa.child is not None:
            child, sa.child = sa.child, None
            sa = self._get_sa(process, child) if child else LoggedSa()
        # The IKE SA already has keys, with other nonces or in a version without additional key exchanges: it was
        # rekeyed, and these are the keys of the new one.
        return LoggedSa(latest=sa.latest) if sa.derived else sa

    # Derivations

    def _add_to_derivation(
        self, message: LogMessage, place: tuple[int, frozenset[int], str], thread: _ThreadState
    ) -> None:
        position, after, name = place
        if thread.block is None or thread.position not in after:
            self._end_block(thread)
            if position > _LAST_START:
                self._report_incomplete_keys(thread, message.line)
                return
            thread.block, thread.settled = LoggedDerivation(message.line), False
        block, thread.position, thread.latest = thread.block, position, message
        block.values[name] = message.data
        if name == "secret" and message.data is not None:
            thread.secret_size = len(message.data)
        if name == "sk_d":
            block.line = message.line
        if position == _LAST_POSITION:
            self._finish_derivation(message, thread)

    def _finish_derivation(self, message: LogMessage, thread: _ThreadState) -> None:
        block = thread.block
        thread.block, thread.position, thread.settled = None, -1, True
        if block is None:
            return
        if thread.mixed:
            thread.mixed = False
            self._warn_of_incomplete_keys(block.line)
            return
        values = block.values
        if values.get("sk_ei") is None and values.get("sk_er") is None:
            if "sk_ei" in values or "sk_er" in values:
                return  # both dumps are incomplete
            keys = [values.get(name) for name in ("sk_d", "sk_pi", "sk_pr")]
            if all(keys):
                sk_d, sk_pi, sk_pr = (key or b"" for key in keys)
                sa = self._find_named_sa(message, thread)
                origin = self._collector.make_origin(block.line)
                self._records.log.ppks.append(PpkKeys(origin, sa, values.get("ppk"), sk_d, sk_pi, sk_pr))
            return
        owner = self._find_owner(message, thread, values.get("nonces"))
        if owner.proposal is None:
            owner.proposal = self._get_current_proposal(message, thread) or owner.latest
        thread.proposal = None
        if nonces := values.get("nonces"):
            _drop_oldest(self._by_nonces)
            self._by_nonces[message.thread[0], nonces] = owner
        block.sa = owner
        owner.derived += 1
        self._records.derived.append(block)

    def _end_block(self, thread: _ThreadState) -> None:
        """End an incomplete derivation: the log is cut, lacks lines, or mixes threads without naming them."""
        block, latest = thread.block, thread.latest
        if block is None or latest is None:
            return
        if latest.thread[1] is None:
            thread.mixed = thread.mixed or "sk_d" in block.values
        elif block.values.get("sk_ei") is not None and block.values.get("sk_er") is not None:
            self._finish_derivation(latest, thread)  # the keys that decrypt messages are complete
            return
        thread.block, thread.position = None, -1
        if not _BEGINS_KEYS.isdisjoint(block.values):
            self._report_incomplete_keys(thread, block.line)

    def _report_incomplete_keys(self, thread: _ThreadState, line: int) -> None:
        """Warn once of keys of which the log lacks dumps."""
        if not thread.settled:
            thread.settled = True
            self._warn_of_incomplete_keys(line)

    def _warn_of_incomplete_keys(self, line: int) -> None:
        self._collector.warn(
            line, "the keys that begin here are incomplete, or mixed with those of other IKE SAs; not used"
        )

    # IKEv1

    def _add_phase1_key(self, message: LogMessage, data: bytes, thread: _ThreadState) -> None:
        thread.block, thread.position = None, -1
        sa = self._find_named_sa(message, thread)
        if sa is None and thread.hashed_back:
            sa = thread.sa
        record = LoggedPhase1Key(message.line, data, sa)
        self._records.phase1.append(record)
        if sa is not None:
            sa.secret_size = thread.secret_size
        if sa is None or sa.spi_i is None:
            thread.phase1 = record

    def _read_phase1_hash_input(self, message: LogMessage, data: bytes, thread: _ThreadState) -> None:
        """HASH_I and HASH_R cover g^xi | g^xr | CKY-I | CKY-R | SAi_b | IDii_b, or the sides swapped (RFC 2409, 5)."""
        sa = self._find_named_sa(message, thread)
        size = (sa.secret_size if sa else 0) or thread.secret_size
        for public in (2 * size, 4 * size):  # bytes of both: MODP, or elliptic curves with two coordinates
            cookies, situation = data[public : public + 16], data[public + 16 : public + 24]
            if size and situation == b"\0\0\0\1\0\0\0\1":  # DOI and situation of SAi_b (RFC 2407, 4.6.1)
                first = cookies[:8] if message.text == b"HASH_I data" else cookies[8:]
                if sa is not None:
                    sa.spi_i = sa.spi_i or first
                if thread.phase1 is not None:
                    thread.phase1.cookie_i, thread.phase1 = first, None
                return

    # Values for verification

    def _begin_int_auth(self, message: LogMessage, data: bytes, thread: _ThreadState) -> None:
        thread.int_auth = LoggedIntAuth(self._collector.make_origin(message.line), previous=data)

    def _add_int_auth_data(self, message: LogMessage, data: bytes, thread: _ThreadState) -> None:  # noqa: ARG002
        if thread.int_auth is not None:
            thread.int_auth.header = data[:28]

    def _keep_sk_p(self, message: LogMessage, data: bytes, thread: _ThreadState) -> None:  # noqa: ARG002
        thread.sk_p = data

    def _end_int_auth(self, message: LogMessage, data: bytes, thread: _ThreadState) -> None:
        record, thread.int_auth = thread.int_auth, None
        if record is not None and record.header and thread.sk_p:
            record.value, record.sk_p = data, thread.sk_p
            record.sa = self._find_named_sa(message, thread)
            self._records.log.int_auths.append(record)
        thread.sk_p = b""

    def _keep_identity(self, message: LogMessage, data: bytes, thread: _ThreadState) -> None:  # noqa: ARG002
        thread.identity, thread.sk_p, thread.auth = data, b"", None

    def _begin_auth(self, message: LogMessage, data: bytes, thread: _ThreadState) -> None:
        thread.auth = LoggedAuth(
            self._collector.make_origin(message.line),
            sa=self._find_named_sa(message, thread),
            identity=thread.identity,
            sk_p=thread.sk_p,
            octets=data,
            method=thread.method,
        )
        thread.method, thread.sk_p = None, b""
        self._records.log.auths.append(thread.auth)

    def _add_auth_secret(self, message: LogMessage, data: bytes, thread: _ThreadState) -> None:  # noqa: ARG002
        if thread.auth is not None:
            thread.auth.secret = data

    def _add_auth_value(self, message: LogMessage, data: bytes, thread: _ThreadState) -> None:  # noqa: ARG002
        if thread.auth is not None:
            thread.auth.value = data

    def _add_msk(self, message: LogMessage, data: bytes, thread: _ThreadState) -> None:  # noqa: ARG002
        self._records.log.msks.append(data)


def _drop_oldest(remembered: dict[Any, LoggedSa]) -> None:
    """Make room for another entry."""
    if len(remembered) >= _MAX_REMEMBERED:
        del remembered[next(iter(remembered))]
