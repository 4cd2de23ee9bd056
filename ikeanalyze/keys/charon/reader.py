"""charon logs with `ike = 4`: keys of IKEv2 and IKEv1, and what else a verification of them needs.

A key derivation is a run of dumps of one thread, in this order:

    key exchange secret (5.9: shared Diffie Hellman secret), additional key exchange secret, nonces, SKEYSEED,
    Sk_d, Sk_ai, Sk_ar, Sk_ei, Sk_er, Sk_pi, Sk_pr secret

It does not say for which IKE SA. That is known by the nonces, which stay the same over the additional key exchanges of
IKE_INTERMEDIATE; by the IKE SA's number in the line, or by the IKE SA that the thread has checked out; and afterwards by
values: what is signed in IKE_AUTH begins with a header with the SPIs, and is logged beside the SK_pi or SK_pr that
goes into it. Where all of that fails, the SPIs stay unknown.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ikeanalyze.keys.charon.lines import LogMessage, LogMessageReader, Thread
from ikeanalyze.keys.charon.model import CharonLog, LoggedMsk
from ikeanalyze.keys.charon.resolve import (
    AuthRecord,
    DerivationRecord,
    IntAuthRecord,
    LoggedSa,
    LogRecords,
    Phase1Record,
    PpkRecord,
)
from ikeanalyze.keys.collector import KeyCollector

#: The dumps of a derivation: their place in it, after which places they may come, and the name in `DerivationRecord.values`.
#: What comes in another order is of several threads, mixed.
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
_MAY_BEGIN: Final = 4  # a derivation may begin with any dump up to this place: what is before it is not needed
_LAST: Final = 10

_CREATED: Final = re.compile(rb"IKE_SA .*\[(\d{1,10})\] state change: CREATED => CONNECTING$")
_DESTROYED: Final = re.compile(rb"IKE_SA .*\[(\d{1,10})\] state change: \w+ => DESTROYING$")
_CHECKED_OUT: Final = re.compile(rb"IKE_SA .*\[(\d{1,10})\] successfully checked out$")
_NEW: Final = re.compile(rb"created IKE_SA .*\[(\d{1,10})\]$")
_CHECKED_IN: Final = re.compile(rb"checkin IKEv[12] SA .*\[(\d{1,10})\] with SPIs ([0-9a-f]{16})_i ([0-9a-f]{16})_r$")
_VERSION: Final = re.compile(rb"Starting .*\(strongSwan ([\w.+-]{1,40})")
_METHOD: Final = re.compile(rb"authentication of '.*' (\(myself\) )?with (pre-shared key|EAP)( successful)?$")
_SELECTED: Final = re.compile(rb"selected proposal: IKE:(\S{1,400})$")

#: Messages that are not dumps and are looked at, by how they begin.
_TEXTS: Final = (
    b"received packet",
    b"parsed ",
    b"selected proposal",
    b"IKE_SA ",
    b"created IKE_SA",
    b"check",
    b"authentication of",
    b"Starting ",
)
_ZEROS: Final = bytes(8)
_MOST: Final = 65_536  # IKE SAs and threads of which something is remembered


@dataclass(slots=True)
class _ThreadState:
    """What a thread is at."""

    checked_out: int | None = None  # number of the IKE SA, in logs without it in each line
    sa: LoggedSa | None = None  # of the message that it handles, by the SPIs that it hashed
    hashed_back: bool = False  # it then compared the hashes: it is the initiator with the response
    proposal: str | None = None
    block: DerivationRecord | None = None
    position: int = -1  # in `_DERIVATION`, of the last dump of the block
    latest: LogMessage | None = None  # with that dump
    mixed: bool = False  # threads are not told apart, and dumps of two derivations came in between each other
    phase1: Phase1Record | None = None  # with a cookie yet to come
    secret_size: int = 0  # bytes of the last Diffie-Hellman secret
    int_auth: IntAuthRecord | None = None
    auth: AuthRecord | None = None  # the last one, in which a secret may have to be put
    identity: bytes = field(default=b"", repr=False)
    sk_p: bytes = field(default=b"", repr=False)
    method: str | None = None  # of the AUTH payload that comes next, which is ours


class CharonReader:
    """Reads lines; gives what it finds to `findings` when the log ends."""

    def __init__(self, findings: KeyCollector) -> None:
        self._findings = findings
        self._threads: dict[Thread, _ThreadState] = {}
        self._numbered: dict[tuple[bytes, int], LoggedSa] = {}
        self._by_spis: dict[tuple[bytes, bytes, bytes], LoggedSa] = {}
        self._by_nonces: dict[tuple[bytes, bytes], LoggedSa] = {}
        self._records = LogRecords()
        self._msks: list[LoggedMsk] = []
        self._version: str | None = None
        self._selections: set[str] = set()  # the proposals selected so far, or two of them
        self._dumps: dict[bytes, Callable[[LogMessage, bytes, _ThreadState], None]] = {
            b"natd_chunk": self._natd,
            b"precalculated src_hash": self._compared,
            b"encryption key Ka": self._phase1,
            b"HASH_I data": self._hashed,
            b"HASH_R data": self._hashed,
            b"IntAuth_N-1": self._int_auth_begins,
            b"IntAuth_A|P": self._int_auth_data,
            b"SK_p": self._sk_p,
            b"IntAuth_N = prf(Sk_px, data)": self._int_auth_ends,
            b"IDx'": self._identity,
            b"octets = message + nonce + prf(Sk_px, IDx')": self._octets,
            b"octets = message + nonce + prf(Sk_px, IDx') + IntAuth": self._octets,
            b"secret": self._secret,
            b"AUTH = prf(prf(secret, keypad), octets)": self._auth_value,
            b"MSK": self._msk,
            b"EAP MSK": self._msk,
        }
        self._lines = LogMessageReader({*_DERIVATION, *self._dumps})

    def feed(self, number: int, line: bytes) -> bool:
        """Read a line; whether it is charon's."""
        ours, messages = self._lines.feed(number, line)
        for message in messages:
            self._message(message)
        return ours

    def finish(self) -> CharonLog | None:
        """Give what was found to the findings, and what stands beside keys back; None: nothing of all that."""
        for message in self._lines.finish():
            self._message(message)
        for thread in list(self._threads.values()):
            self._end_block(thread)
        keys = self._findings.key_count
        log = self._records.finish(self._findings, self._version, tuple(self._msks))
        if self._findings.key_count > keys or log.auths or log.int_auths:
            self._findings.add_format("charon log")
            return log
        return None

    def _message(self, message: LogMessage) -> None:
        if message.group not in (None, b"IKE"):
            if not message.dump and message.text.startswith(_TEXTS):
                self._text(message)
            return
        if not message.dump:
            if message.text.startswith(_TEXTS):
                self._text(message)
            return
        place = _DERIVATION.get(message.text)
        handler = self._dumps.get(message.text)
        if place is None and handler is None:
            return
        if message.data is None:
            self._findings.warn(
                message.line, f'the hex dump of "{message.text.decode("ascii", "replace")}" is cut; not used'
            )
        thread = self._thread(message)
        if place is not None:
            self._derivation(message, place, thread)
        elif handler is not None and message.data is not None:
            handler(message, message.data, thread)

    # What the log says in words

    def _text(self, message: LogMessage) -> None:
        text, thread = message.text, self._thread(message)
        process = message.thread[0]
        if text.startswith((b"received packet", b"parsed ")):
            thread.sa, thread.hashed_back, thread.proposal, thread.phase1 = None, False, None, None
        elif text.startswith(b"selected proposal"):
            if selected := _SELECTED.match(text):
                self._selected(message, thread, selected[1].decode("ascii", "replace"))
        elif text.startswith(b"authentication of"):
            if method := _METHOD.match(text):
                self._method(thread, own=method[1] is not None, name=method[2].decode())
        elif text.startswith(b"Starting "):
            if version := _VERSION.match(text):
                self._restarted(process, version[1].decode())
        elif text.startswith(b"checkout "):
            thread.checked_out = None
        elif checked_in := _CHECKED_IN.match(text):
            if checked_in[3] != b"0" * 16:
                sa = self._sa(process, int(checked_in[1]))
                sa.spi_i, sa.spi_r = (bytes.fromhex(spi.decode()) for spi in checked_in.group(2, 3))
        elif checked_out := _CHECKED_OUT.match(text):
            thread.checked_out = int(checked_out[1])
        elif new := _NEW.match(text):
            if thread.checked_out is None:
                thread.checked_out = int(new[1])
        elif created := _CREATED.match(text):
            number = message.sa or thread.checked_out
            if number is not None and number != int(created[1]):
                sa = self._sa(process, number)
                # two at once: peers that rekey at the same time. Which is derived first is not known
                sa.child = int(created[1]) if sa.child is None else 0
        elif destroyed := _DESTROYED.match(text):
            self._numbered.pop((process, int(destroyed[1])), None)

    def _selected(self, message: LogMessage, thread: _ThreadState, text: str) -> None:
        thread.proposal = text
        if len(self._selections) < 2:
            self._selections.add(text)
        if (sa := self._named_sa(message, thread)) is not None:
            sa.latest = text
            if sa.child:
                self._sa(message.thread[0], sa.child).latest = text

    def _selected_here(self, message: LogMessage, thread: _ThreadState) -> str | None:
        """The proposal of the message that the thread handles; with no threads told apart, if there is but one."""
        return thread.proposal if message.thread[1] is not None or len(self._selections) == 1 else None

    def _method(self, thread: _ThreadState, *, own: bool, name: str) -> None:
        if own:
            thread.method = name
        elif thread.auth is not None and thread.auth.method is None:
            thread.auth.method = name

    def _restarted(self, process: bytes, version: str) -> None:
        """The daemon begins: numbers of threads and of IKE SAs begin anew."""
        self._version = version
        for key in [key for key in self._threads if key[0] == process]:
            working = self._threads.pop(key)
            self._end_block(working)
        for numbered in [key for key in self._numbered if key[0] == process]:
            del self._numbered[numbered]

    # IKE SAs

    def _thread(self, message: LogMessage) -> _ThreadState:
        thread = self._threads.get(message.thread)
        if thread is None:
            if len(self._threads) >= _MOST:
                oldest = self._threads.pop(next(iter(self._threads)))
                self._end_block(oldest)
            thread = self._threads[message.thread] = _ThreadState()
        return thread

    def _sa(self, process: bytes, number: int) -> LoggedSa:
        key = (process, number)
        sa = self._numbered.get(key)
        if sa is None:
            if len(self._numbered) >= _MOST:
                del self._numbered[next(iter(self._numbered))]
            sa = self._numbered[key] = LoggedSa()
        return sa

    def _named_sa(self, message: LogMessage, thread: _ThreadState) -> LoggedSa | None:
        """The IKE SA that the line, or the thread's last checkout, names."""
        number = message.sa if message.sa is not None else thread.checked_out
        return None if number is None else self._sa(message.thread[0], number)

    def _natd(self, message: LogMessage, data: bytes, thread: _ThreadState) -> None:
        """What NAT detection hashes: SPIi | SPIr | address | port (RFC 7296, section 2.23)."""
        spi_i, spi_r = data[:8], data[8:16]
        if len(spi_r) < 8 or spi_r == _ZEROS:
            return
        process = message.thread[0]
        sa = self._named_sa(message, thread)
        if sa is not None and sa.spi_i not in (None, spi_i) and sa.derived:
            # tried again from the start, under the same number
            sa = self._numbered[process, message.sa or thread.checked_out or 0] = LoggedSa(latest=sa.latest)
        if sa is None:
            if len(self._by_spis) >= _MOST:
                del self._by_spis[next(iter(self._by_spis))]
            sa = self._by_spis.setdefault((process, spi_i, spi_r), LoggedSa())
        sa.spi_i, sa.spi_r = spi_i, spi_r
        thread.sa = sa
        if thread.phase1 is not None:
            thread.phase1.cookie_i, thread.phase1 = spi_i, None
        if (selected := self._selected_here(message, thread)) is not None:
            sa.latest = selected
            self._records.proposals[spi_i, spi_r] = selected

    def _compared(self, message: LogMessage, data: bytes, thread: _ThreadState) -> None:  # noqa: ARG002
        thread.hashed_back = thread.sa is not None

    def _owner(self, message: LogMessage, thread: _ThreadState, nonces: bytes | None) -> LoggedSa:
        """The IKE SA for which keys were derived just now."""
        process = message.thread[0]
        if nonces and (known := self._by_nonces.get((process, nonces))) is not None:
            return known
        sa = self._named_sa(message, thread)
        if sa is None and thread.hashed_back and message.thread[1] is not None:
            sa = thread.sa
        if sa is None:
            return LoggedSa()
        if sa.child is not None:
            child, sa.child = sa.child, None
            sa = self._sa(process, child) if child else LoggedSa()
        # An IKE SA that has keys already, with other nonces or in a version that knows no additional key
        # exchanges: it was rekeyed, and these are the keys of another one.
        return LoggedSa(latest=sa.latest) if sa.derived else sa

    # Derivations

    def _derivation(self, message: LogMessage, place: tuple[int, frozenset[int], str], thread: _ThreadState) -> None:
        position, after, name = place
        if thread.block is None or thread.position not in after:
            self._end_block(thread)
            if position > _MAY_BEGIN:
                if name == "sk_ei":
                    self._incomplete(message.line)
                return
            thread.block = DerivationRecord(message.line)
        block, thread.position, thread.latest = thread.block, position, message
        block.values[name] = message.data
        if name == "secret" and message.data is not None:
            thread.secret_size = len(message.data)
        if name == "sk_d":
            block.line = message.line
        if position == _LAST:
            self._derived(message, thread)

    def _derived(self, message: LogMessage, thread: _ThreadState) -> None:
        block = thread.block
        thread.block, thread.position = None, -1
        if block is None:
            return
        if thread.mixed:
            thread.mixed = False
            self._incomplete(block.line)
            return
        values = block.values
        if values.get("sk_ei") is None and values.get("sk_er") is None:
            if "sk_ei" in values or "sk_er" in values:
                return  # there were such, and they are cut
            keys = [values.get(name) for name in ("sk_d", "sk_pi", "sk_pr")]
            if all(keys):
                sk_d, sk_pi, sk_pr = (key or b"" for key in keys)
                sa = self._named_sa(message, thread)
                self._records.ppks.append(PpkRecord(block.line, sa, values.get("ppk"), sk_d, sk_pi, sk_pr))
            return
        owner = self._owner(message, thread, values.get("nonces"))
        if owner.proposal is None:
            owner.proposal = self._selected_here(message, thread) or owner.latest
        thread.proposal = None
        if nonces := values.get("nonces"):
            if len(self._by_nonces) >= _MOST:
                del self._by_nonces[next(iter(self._by_nonces))]
            self._by_nonces[message.thread[0], nonces] = owner
        block.sa = owner
        owner.derived += 1
        self._records.derived.append(block)

    def _end_block(self, thread: _ThreadState) -> None:
        """A derivation that does not go on: the log is cut, lacks lines, or mixes threads that it does not name."""
        block, latest = thread.block, thread.latest
        if block is None or latest is None:
            return
        if latest.thread[1] is None:
            thread.mixed = thread.mixed or "sk_d" in block.values
        elif block.values.get("sk_ei") is not None and block.values.get("sk_er") is not None:
            self._derived(latest, thread)  # what opens messages is there
            return
        thread.block, thread.position = None, -1
        if "sk_ei" in block.values:
            self._incomplete(block.line)

    def _incomplete(self, line: int) -> None:
        self._findings.warn(
            line, "the keys that begin here are not complete, or those of several IKE SAs mixed; not used"
        )

    # IKEv1

    def _phase1(self, message: LogMessage, data: bytes, thread: _ThreadState) -> None:
        thread.block, thread.position = None, -1
        sa = self._named_sa(message, thread)
        if sa is None and thread.hashed_back:
            sa = thread.sa
        record = Phase1Record(message.line, data, sa)
        self._records.phase1.append(record)
        if sa is not None:
            sa.secret_size = thread.secret_size
        if sa is None or sa.spi_i is None:
            thread.phase1 = record

    def _hashed(self, message: LogMessage, data: bytes, thread: _ThreadState) -> None:
        """HASH_I and HASH_R are made of g^xi | g^xr | CKY-I | CKY-R | SAi_b | IDii_b, or the other way round (RFC 2409, 5)."""
        sa = self._named_sa(message, thread)
        size = (sa.secret_size if sa else 0) or thread.secret_size
        for public in (2 * size, 4 * size):  # of both together: MODP, or elliptic curves with two coordinates
            cookies, situation = data[public : public + 16], data[public + 16 : public + 24]
            if size and situation == b"\0\0\0\1\0\0\0\1":  # of SAi_b: the DOI and the situation (RFC 2407, 4.6.1)
                first = cookies[:8] if message.text == b"HASH_I data" else cookies[8:]
                if sa is not None:
                    sa.spi_i = sa.spi_i or first
                if thread.phase1 is not None:
                    thread.phase1.cookie_i, thread.phase1 = first, None
                return

    # What stands beside keys

    def _int_auth_begins(self, message: LogMessage, data: bytes, thread: _ThreadState) -> None:
        thread.int_auth = IntAuthRecord(message.line, previous=data)

    def _int_auth_data(self, message: LogMessage, data: bytes, thread: _ThreadState) -> None:  # noqa: ARG002
        if thread.int_auth is not None:
            thread.int_auth.header = data[:28]

    def _sk_p(self, message: LogMessage, data: bytes, thread: _ThreadState) -> None:  # noqa: ARG002
        thread.sk_p = data

    def _int_auth_ends(self, message: LogMessage, data: bytes, thread: _ThreadState) -> None:
        record, thread.int_auth = thread.int_auth, None
        if record is not None and record.header and thread.sk_p:
            record.value, record.sk_p = data, thread.sk_p
            record.sa = self._named_sa(message, thread)
            self._records.int_auths.append(record)
        thread.sk_p = b""

    def _identity(self, message: LogMessage, data: bytes, thread: _ThreadState) -> None:  # noqa: ARG002
        thread.identity, thread.sk_p, thread.auth = data, b"", None

    def _octets(self, message: LogMessage, data: bytes, thread: _ThreadState) -> None:
        thread.auth = AuthRecord(
            message.line,
            sa=self._named_sa(message, thread),
            identity=thread.identity,
            sk_p=thread.sk_p,
            octets=data,
            method=thread.method,
        )
        thread.method, thread.sk_p = None, b""
        self._records.auths.append(thread.auth)

    def _secret(self, message: LogMessage, data: bytes, thread: _ThreadState) -> None:  # noqa: ARG002
        if thread.auth is not None:
            thread.auth.secret = data

    def _auth_value(self, message: LogMessage, data: bytes, thread: _ThreadState) -> None:  # noqa: ARG002
        if thread.auth is not None:
            thread.auth.value = data

    def _msk(self, message: LogMessage, data: bytes, thread: _ThreadState) -> None:  # noqa: ARG002
        self._msks.append(LoggedMsk(self._findings.make_origin(message.line), data))
