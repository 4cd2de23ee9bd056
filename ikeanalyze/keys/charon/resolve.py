"""Convert the derivations of a charon log to key sets with SPIs, and find the key set of each other value.

The SPIs of a key set are, in this order: those in the octets authenticated with its SK_pi or SK_pr, which the value
proves; those that the log has elsewhere for its IKE SA; unknown.
"""

from dataclasses import dataclass, field

from ikeanalyze.keys.charon.algorithm_names import LoggedProposal, parse_proposal
from ikeanalyze.keys.charon.model import (
    CharonLog,
    LoggedAuth,
    LoggedDerivation,
    LoggedIntAuth,
    LoggedPhase1Key,
    LoggedSa,
    Spis,
)
from ikeanalyze.keys.collector import KeyCollector
from ikeanalyze.keys.key_set import Derivation, KeySet, Phase1Key
from ikeanalyze.wire.header import HEADER

_ZEROS = bytes(8)
_MIN_NONCE_BYTES = 16  # RFC 7296, section 2.10


@dataclass(slots=True)
class LogRecords:
    """Everything that was read from a log."""

    derived: list[LoggedDerivation] = field(default_factory=list)
    phase1: list[LoggedPhase1Key] = field(default_factory=list)
    proposals: dict[Spis, str] = field(default_factory=dict)  # selected proposals by SPIs
    log: CharonLog = field(default_factory=CharonLog)  # the values other than keys


def resolve_records(records: LogRecords, collector: KeyCollector) -> None:
    """Add the keys to `collector`, and to each other value the key set that it belongs to."""
    resolver = _RecordResolver(records, collector)
    resolver.bind()
    resolver.add_key_sets()
    resolver.add_phase1_keys()
    resolver.assign_key_sets()


class _RecordResolver:
    def __init__(self, records: LogRecords, collector: KeyCollector) -> None:
        self._records = records
        self._collector = collector
        self._signers: dict[bytes, LoggedDerivation] = {}  # by SK_pi and SK_pr
        self._last: dict[LoggedSa | None, LoggedDerivation] = {}
        for derived in records.derived:
            for name in ("sk_pi", "sk_pr"):
                if key := derived.values.get(name):
                    self._signers.setdefault(key, derived)
            if derived.sa is not None:
                self._last[derived.sa] = derived

    def bind(self) -> None:
        """Find the SPIs that authenticated octets prove."""
        log = self._records.log
        self._find_owners_of_ppks()
        for ppk in log.ppks:
            if (derived := self._last.get(ppk.sa)) is not None:
                self._signers.setdefault(ppk.sk_pi, derived)
                self._signers.setdefault(ppk.sk_pr, derived)
        headers = [(int_auth.sk_p, int_auth.header) for int_auth in log.int_auths]
        headers += [(auth.sk_p, auth.octets[: HEADER.size]) for auth in log.auths]
        for sk_p, header in headers:
            signer = self._signers.get(sk_p)
            if signer is not None and len(header) == HEADER.size and header[8:16] != _ZEROS:
                signer.bound = signer.bound or (header[:8], header[8:16])
        bound: dict[LoggedSa, set[Spis]] = {}
        for derived in self._records.derived:
            if derived.sa is not None and derived.bound is not None:
                bound.setdefault(derived.sa, set()).add(derived.bound)
        for sa, spis in bound.items():
            if len(spis) == 1:
                sa.spi_i, sa.spi_r = next(iter(spis))
            else:  # two IKE SAs under one number: the logged SPIs are right for one of them at most
                sa.spi_i = sa.spi_r = None

    def _find_owners_of_ppks(self) -> None:
        """Find the IKE SA of keys made with a PPK where the log does not number IKE SAs.

        The log has SK_pi or SK_pr with the octets that it signed.
        """
        octets = {auth.sk_p: auth.octets for auth in self._records.log.auths}
        for ppk in self._records.log.ppks:
            signed = octets.get(ppk.sk_pi) or octets.get(ppk.sk_pr)
            if ppk.sa is None and signed is not None and len(signed) >= HEADER.size:
                derivations = reversed(self._records.derived)
                ppk.sa = next((derived.sa for derived in derivations if _is_of_ike_sa(derived, signed)), None)

    def add_key_sets(self) -> None:
        """Create the key sets of the derivations."""
        made: dict[tuple[bytes, ...], KeySet | None] = {}
        for derived in self._records.derived:
            keys = tuple(derived.values.get(name) or b"" for name in ("sk_ei", "sk_er", "sk_ai", "sk_ar"))
            derived.key_set = made.get(keys)  # known if it was logged twice, such as to a file and to syslog
            if derived.key_set is None and (key_set := self._make_key_set(derived)) is not None:
                derived.key_set = made[keys] = key_set
                self._collector.key_sets.append(key_set)

    def _make_key_set(self, derived: LoggedDerivation) -> KeySet | None:
        values = derived.values
        spis = derived.bound or (derived.sa.spis if derived.sa is not None else None)
        spi_i, spi_r = spis or (None, None)
        chosen = self._find_proposal(derived, spis)
        # With an incomplete SK_a, decryption with SK_e cannot be checked.
        sk_ei = None if values.get("sk_ai", b"") is None else values.get("sk_ei")
        sk_er = None if values.get("sk_ar", b"") is None else values.get("sk_er")
        if sk_ei is None and sk_er is None:
            return None
        return KeySet(
            origin=self._collector.make_origin(derived.line),
            spi_i=spi_i,
            spi_r=spi_r,
            encryption=None if chosen is None else chosen.encryption,
            integrity=None if chosen is None else chosen.integrity,
            sk_ei=sk_ei or b"",
            sk_er=sk_er or b"",
            sk_ai=values.get("sk_ai") or b"",
            sk_ar=values.get("sk_ar") or b"",
            sk_d=values.get("sk_d"),
            sk_pi=values.get("sk_pi"),
            sk_pr=values.get("sk_pr"),
            derivation=_make_derivation(values, chosen),
        )

    def _find_proposal(self, derived: LoggedDerivation, spis: Spis | None) -> LoggedProposal | None:
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

    def add_phase1_keys(self) -> None:
        """Create the keys of IKEv1."""
        seen: set[tuple[bytes, bytes]] = set()
        for record in self._records.phase1:
            cookie = record.cookie_i or (record.sa.spi_i if record.sa is not None else None)
            if cookie is None:
                self._collector.warn(record.line, "the log does not name the IKE SA of this IKEv1 key; not used")
            elif (cookie, record.key) not in seen:
                seen.add((cookie, record.key))
                self._collector.phase1.append(Phase1Key(self._collector.make_origin(record.line), cookie, record.key))

    def assign_key_sets(self) -> None:
        """Find the key set of each value."""
        log = self._records.log
        values: list[LoggedIntAuth | LoggedAuth] = [*log.int_auths, *log.auths]
        for value in values:
            derived = self._signers.get(value.sk_p) or self._last.get(value.sa)
            value.key_set = None if derived is None else derived.key_set
        for ppk in log.ppks:
            derived = self._last.get(ppk.sa)
            ppk.key_set = None if derived is None else derived.key_set


def _is_of_ike_sa(derived: LoggedDerivation, octets: bytes) -> bool:
    """Whether a derivation has the SPIs of signed octets, or else their nonce.

    The octets are a message of IKE_SA_INIT, the peer's nonce and more (RFC 7296, section 2.15).
    """
    spi_i, spi_r, *_, end = HEADER.unpack_from(octets)
    sa = derived.sa
    if sa is not None and sa.spis is not None:
        return sa.spi_i == spi_i and spi_r in (sa.spi_r, _ZEROS)
    nonce = octets[end : end + _MIN_NONCE_BYTES]
    return len(nonce) == _MIN_NONCE_BYTES and nonce in (derived.values.get("nonces") or b"")


def _make_derivation(values: dict[str, bytes | None], chosen: LoggedProposal | None) -> Derivation | None:
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
