"""Convert the records of a charon log to key sets with SPIs, and assign signed octets to key sets.

The SPIs of a key set are, in this order: those in the octets authenticated with its SK_pi or SK_pr, which the value
proves; those that the log has elsewhere for its IKE SA; unknown.
"""

from dataclasses import dataclass, field
from typing import Literal

from ikeanalyze.keys.charon.algorithm_names import LoggedProposal, parse_proposal
from ikeanalyze.keys.charon.model import CharonLog, LoggedAuth, LoggedIntAuth, LoggedMsk, PpkKeys, Side
from ikeanalyze.keys.collector import KeyCollector
from ikeanalyze.keys.key_set import Derivation, KeySet, Phase1Key
from ikeanalyze.wire.header import FLAG_INITIATOR

_ZEROS = bytes(8)

Spis = tuple[bytes, bytes]


@dataclass(slots=True, eq=False)
class LoggedSa:
    """The logged attributes of an IKE SA."""

    spi_i: bytes | None = None
    spi_r: bytes | None = None
    latest: str | None = None  # the last proposal selected under its number
    proposal: str | None = None  # the proposal of its keys
    child: int | None = None  # number of the IKE SA that replaces it; 0: ambiguous
    derived: int = 0  # number of key sets
    secret_size: int = 0  # bytes of its IKEv1 Diffie-Hellman secret


@dataclass(slots=True, eq=False)
class DerivationRecord:
    """A key derivation. The value of an incomplete dump is None; that of a missing dump is absent."""

    line: int
    values: dict[str, bytes | None] = field(default_factory=dict, repr=False)
    sa: LoggedSa | None = None
    bound: Spis | None = None  # SPIs proved by authenticated octets
    key_set: KeySet | None = field(default=None, repr=False)


@dataclass(slots=True, eq=False)
class Phase1Record:
    """An IKEv1 key."""

    line: int
    key: bytes = field(repr=False)
    sa: LoggedSa | None
    cookie_i: bytes | None = None


@dataclass(slots=True, eq=False)
class PpkRecord:
    """Keys after mixing in a PPK."""

    line: int
    sa: LoggedSa | None
    ppk: bytes | None = field(repr=False)
    sk_d: bytes = field(repr=False)
    sk_pi: bytes = field(repr=False)
    sk_pr: bytes = field(repr=False)


@dataclass(slots=True, eq=False)
class IntAuthRecord:
    """An IntAuth value."""

    line: int
    sa: LoggedSa | None = None
    previous: bytes = field(default=b"", repr=False)
    header: bytes = field(default=b"", repr=False)  # IKE header of the message
    sk_p: bytes = field(default=b"", repr=False)
    value: bytes = field(default=b"", repr=False)


@dataclass(slots=True, eq=False)
class AuthRecord:
    """The inputs and the value of an AUTH payload."""

    line: int
    sa: LoggedSa | None
    identity: bytes = field(repr=False)
    sk_p: bytes = field(repr=False)
    octets: bytes = field(repr=False)
    method: str | None = None
    secret: bytes | None = field(default=None, repr=False)
    value: bytes | None = field(default=None, repr=False)


@dataclass(slots=True)
class LogRecords:
    """All records of a log."""

    derived: list[DerivationRecord] = field(default_factory=list)
    phase1: list[Phase1Record] = field(default_factory=list)
    ppks: list[PpkRecord] = field(default_factory=list)
    int_auths: list[IntAuthRecord] = field(default_factory=list)
    auths: list[AuthRecord] = field(default_factory=list)
    proposals: dict[Spis, str] = field(default_factory=dict)  # selected proposals by SPIs

    def finish(self, collector: KeyCollector, version: str | None, msks: tuple[LoggedMsk, ...]) -> CharonLog:
        """Add the keys to `collector` and return the other values."""
        return _RecordResolver(self, collector).log(version, msks)


class _RecordResolver:
    def __init__(self, records: LogRecords, collector: KeyCollector) -> None:
        self._records = records
        self._collector = collector
        self._signers: dict[bytes, tuple[DerivationRecord, Side]] = {}
        self._last: dict[LoggedSa, DerivationRecord] = {}
        for derived in records.derived:
            for name, side in (("sk_pi", "initiator"), ("sk_pr", "responder")):
                if key := derived.values.get(name):
                    self._signers.setdefault(key, (derived, _side(initiator=side == "initiator")))
            if derived.sa is not None:
                self._last[derived.sa] = derived
        self._bind()
        self._make()
        self._make_phase1()

    def log(self, version: str | None, msks: tuple[LoggedMsk, ...]) -> CharonLog:
        """The values other than keys."""
        return CharonLog(
            version,
            tuple(self._int_auth(record) for record in self._records.int_auths),
            tuple(self._auth(record) for record in self._records.auths),
            tuple(self._ppk(record) for record in self._records.ppks),
            msks,
        )

    def _bind(self) -> None:
        """Find the SPIs that authenticated octets prove."""
        for record in self._records.ppks:
            derived = self._last.get(record.sa) if record.sa is not None else None
            if derived is not None:
                self._signers.setdefault(record.sk_pi, (derived, "initiator"))
                self._signers.setdefault(record.sk_pr, (derived, "responder"))
        headers = [(record.sk_p, record.header) for record in self._records.int_auths]
        headers += [(record.sk_p, record.octets[:28]) for record in self._records.auths]
        for sk_p, header in headers:
            signer = self._signers.get(sk_p)
            if signer is not None and len(header) == 28 and header[8:16] != _ZEROS:
                signer[0].bound = signer[0].bound or (header[:8], header[8:16])
        bound: dict[LoggedSa, set[Spis]] = {}
        for derived in self._records.derived:
            if derived.sa is not None and derived.bound is not None:
                bound.setdefault(derived.sa, set()).add(derived.bound)
        for sa, spis in bound.items():
            if len(spis) == 1:
                sa.spi_i, sa.spi_r = next(iter(spis))
            else:  # two IKE SAs under one number: the logged SPIs are right for one of them at most
                sa.spi_i = sa.spi_r = None

    def _make(self) -> None:
        made: dict[tuple[bytes, ...], KeySet] = {}
        for derived in self._records.derived:
            keys = [derived.values.get(name) or b"" for name in ("sk_ei", "sk_er", "sk_ai", "sk_ar")]
            known = made.get(tuple(keys))
            if known is not None:  # logged twice, such as to a file and to syslog
                derived.key_set = known
                continue
            derived.key_set = self._key_set(derived)
            if derived.key_set is not None:
                made[tuple(keys)] = derived.key_set
                self._collector.key_sets.append(derived.key_set)

    def _key_set(self, derived: DerivationRecord) -> KeySet | None:
        values = derived.values
        spis = derived.bound or _spis(derived.sa)
        chosen = self._proposal(derived, spis)
        # With an incomplete SK_a, decryption with SK_e cannot be checked.
        sk_ei = None if values.get("sk_ai", b"") is None else values.get("sk_ei")
        sk_er = None if values.get("sk_ar", b"") is None else values.get("sk_er")
        if sk_ei is None and sk_er is None:
            return None
        return KeySet(
            origin=self._collector.make_origin(derived.line),
            spi_i=spis[0] if spis else None,
            spi_r=spis[1] if spis else None,
            encryption=None if chosen is None else chosen.encryption,
            integrity=None if chosen is None else chosen.integrity,
            sk_ei=sk_ei or b"",
            sk_er=sk_er or b"",
            sk_ai=values.get("sk_ai") or b"",
            sk_ar=values.get("sk_ar") or b"",
            sk_d=values.get("sk_d"),
            sk_pi=values.get("sk_pi"),
            sk_pr=values.get("sk_pr"),
            derivation=_derivation(values, chosen),
        )

    def _proposal(self, derived: DerivationRecord, spis: Spis | None) -> LoggedProposal | None:
        """The selected proposal; None: unknown, or its key lengths do not fit."""
        text = derived.sa.proposal if derived.sa is not None else None
        if text is None and spis is not None:
            text = self._records.proposals.get(spis)
        if text is None:
            return None
        chosen = parse_proposal(text)
        sk_e = derived.values.get("sk_ei") or derived.values.get("sk_er") or b""
        sk_a = derived.values.get("sk_ai") or derived.values.get("sk_ar") or b""
        return chosen if chosen.matches_key_lengths(sk_e, sk_a) else None

    def _make_phase1(self) -> None:
        seen: set[tuple[bytes, bytes]] = set()
        for record in self._records.phase1:
            cookie = record.cookie_i or (record.sa.spi_i if record.sa is not None else None)
            if cookie is None:
                self._collector.warn(record.line, "the log does not name the IKE SA of this IKEv1 key; not used")
            elif (cookie, record.key) not in seen:
                seen.add((cookie, record.key))
                self._collector.phase1.append(Phase1Key(self._collector.make_origin(record.line), cookie, record.key))

    def _find_key_set(self, sk_p: bytes, sa: LoggedSa | None) -> KeySet | None:
        if (signer := self._signers.get(sk_p)) is not None:
            return signer[0].key_set
        derived = self._last.get(sa) if sa is not None else None
        return derived.key_set if derived is not None else None

    def _int_auth(self, record: IntAuthRecord) -> LoggedIntAuth:
        header = record.header
        return LoggedIntAuth(
            origin=self._collector.make_origin(record.line),
            side=_sender(header),
            message_id=int.from_bytes(header[20:24]) if len(header) == 28 else None,
            key_set=self._find_key_set(record.sk_p, record.sa),
            sk_p=record.sk_p,
            previous=record.previous,
            value=record.value,
        )

    def _auth(self, record: AuthRecord) -> LoggedAuth:
        return LoggedAuth(
            origin=self._collector.make_origin(record.line),
            side=_sender(record.octets[:28]),
            method=record.method,
            key_set=self._find_key_set(record.sk_p, record.sa),
            sk_p=record.sk_p,
            identity=record.identity,
            octets=record.octets,
            secret=record.secret,
            value=record.value,
        )

    def _ppk(self, record: PpkRecord) -> PpkKeys:
        derived = self._last.get(record.sa) if record.sa is not None else None
        return PpkKeys(
            origin=self._collector.make_origin(record.line),
            key_set=derived.key_set if derived is not None else None,
            ppk=record.ppk,
            sk_d=record.sk_d,
            sk_pi=record.sk_pi,
            sk_pr=record.sk_pr,
        )


def _spis(sa: LoggedSa | None) -> Spis | None:
    return None if sa is None or sa.spi_i is None or sa.spi_r is None else (sa.spi_i, sa.spi_r)


def _sender(header: bytes) -> Side | None:
    """The sender of a message, by the initiator flag of its IKE header."""
    return _side(initiator=bool(header[19] & FLAG_INITIATOR)) if len(header) == 28 else None


def _side(*, initiator: bool) -> Literal["initiator", "responder"]:
    return "initiator" if initiator else "responder"


def _derivation(values: dict[str, bytes | None], chosen: LoggedProposal | None) -> Derivation | None:
    secret, nonces, skeyseed = (values.get(name) for name in ("secret", "nonces", "skeyseed"))
    if secret is None and nonces is None and skeyseed is None:
        return None
    additional = values.get("additional") or b""
    return Derivation(
        secret=secret,
        additional=chosen.split_secrets(additional) if chosen is not None else ((additional,) if additional else ()),
        nonces=nonces,
        skeyseed=skeyseed,
        prf=None if chosen is None else chosen.prf,
    )
