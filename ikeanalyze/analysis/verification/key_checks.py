"""Checks the key schedule: compares each value of a log with the value computed from the previous step.

Each step uses the log's value of the previous step, so only the first wrong step fails: SKEYSEED is computed from the
key exchange secret, the nonces of the capture and, if any, SK_d of the previous epoch or IKE SA; of a resumed IKE SA,
from SK_d of the one that it resumes (RFC 5723, section 5.1). SK_* are computed from SKEYSEED of the log and the nonces
and SPIs of the capture.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ikeanalyze.analysis.verification.checks import UNKNOWN_PRF, MissingValueError, VerificationCheck, compare_values
from ikeanalyze.analysis.verification.ike_sas import IkeSaRecord, Values, find_negotiated_prf, get_key_values
from ikeanalyze.crypto.algorithms import ENCRYPTION, IkeSuite, PrfAlgorithm, get_suite
from ikeanalyze.crypto.key_schedule import (
    SessionKeys,
    mix_in_ppk,
    session_keys,
    skeyseed,
    skeyseed_after_additional,
    skeyseed_of_rekeying,
    skeyseed_of_resumption,
)
from ikeanalyze.keys.charon.model import PpkKeys
from ikeanalyze.keys.key_set import KeySet

_NAMES: Final = ("sk_d", "sk_ai", "sk_ar", "sk_ei", "sk_er", "sk_pi", "sk_pr")
_PPK_NAMES: Final = ("sk_d", "sk_pi", "sk_pr")

Ppks = Mapping[Values, Sequence[PpkKeys]]


def check_key_schedule(sa: IkeSaRecord, ppks: Ppks) -> Iterator[VerificationCheck]:
    """The checks of the key sets of one IKE SA, epoch by epoch. `ppks`: keys made with a PPK, by the keys they replace.

    Equal key sets of several files are checked once; a key set without secrets is skipped if another file has them.
    """
    done: set[object] = set()
    derived = {(entry.epoch, get_key_values(entry.keys)) for entry in sa.key_sets if entry.keys.derivation is not None}
    for entry in sa.key_sets:
        keys, inputs = entry.keys, entry.keys.derivation
        if inputs is None and (entry.epoch, get_key_values(keys)) in derived:
            continue
        secrets = inputs and (inputs.secret, inputs.additional, inputs.nonces, inputs.skeyseed)
        identity = entry.epoch, get_key_values(keys), keys.sk_d, keys.sk_pi, keys.sk_pr, secrets
        if identity not in done:
            done.add(identity)
            yield from _EpochChecker(sa, entry.epoch, keys, ppks).check()


def get_current_sk_d(sa: IkeSaRecord, path: str, ppks: Ppks) -> bytes | None:
    """The SK_d that keys a rekeyed IKE SA, from this key file if it has one, or else from any (RFC 8784, section 3)."""
    usable = [entry.keys for entry in reversed(sa.key_sets) if entry.keys.sk_d is not None]  # last epoch first
    if not usable:
        return None
    keys = next((keys for keys in usable if keys.origin.path == path), usable[0])
    mixed = ppks.get(get_key_values(keys))
    return mixed[-1].sk_d if mixed else keys.sk_d


@dataclass(frozen=True, slots=True)
class _EpochChecker:
    """Checks one key set of an IKE SA."""

    sa: IkeSaRecord
    epoch: int
    keys: KeySet
    ppks: Ppks

    def check(self) -> Iterator[VerificationCheck]:
        keys, inputs = self.keys, self.keys.derivation
        if self.sa.nonces is not None and inputs is not None and inputs.nonces is not None:
            yield self._compare("nonces", self.sa.nonces, inputs.nonces)
        computed, why = None, None
        try:
            computed = self._compute_skeyseed()
        except MissingValueError as error:
            why = str(error)
        logged = None if inputs is None else inputs.skeyseed
        if logged is not None and computed is not None:
            yield self._compare("SKEYSEED", computed, logged)
        else:
            yield self._make_missing_check("SKEYSEED", why or "it is not in the key file")
        seed = computed if logged is None else logged
        try:
            if seed is None:
                raise MissingValueError("there is no SKEYSEED to derive them from")
            expected = self._compute_session_keys(seed)
        except MissingValueError as error:
            yield self._make_missing_check("SK_*", str(error))
        else:
            yield from self._compare_keys(expected, "SKEYSEED as derived" if logged is None else None)
        for ppk in self.ppks.get(get_key_values(keys), ()):
            yield from self._check_ppk(ppk)

    def _compute_skeyseed(self) -> bytes:
        """SKEYSEED from the key exchange secret and the previous step."""
        sa, inputs = self.sa, self.keys.derivation
        if sa.is_resumed:
            return self._compute_resumed_skeyseed()
        if inputs is None or inputs.secret is None:
            raise MissingValueError("the key file has no key exchange secret")
        nonces = self._get_nonces()
        if self.epoch > 0:
            previous = self._get_previous_sk_d()
            return skeyseed_after_additional(self._get_prf(sa), previous, inputs.secret, nonces)
        if sa.parent is not None:
            sk_d = get_current_sk_d(sa.parent, self.keys.origin.path, self.ppks)
            if sk_d is None:
                raise MissingValueError("no key file has the SK_d of the IKE SA that it replaces")
            prf = self._get_prf(sa.parent)
            return skeyseed_of_rekeying(prf, sk_d, (inputs.secret, *inputs.additional), nonces)
        if sa.request is None or sa.response is None or sa.nonce_i is None or sa.nonce_r is None:
            raise MissingValueError(
                "the capture has neither its IKE_SA_INIT or IKE_SESSION_RESUME exchange nor the rekeying that made it"
            )
        return skeyseed(self._get_prf(sa), inputs.secret, sa.nonce_i, sa.nonce_r)

    def _compute_resumed_skeyseed(self) -> bytes:
        """SKEYSEED from the SK_d of the IKE SA that this one resumes.

        If the capture does not show which one that is, a wrong value only means that it is another one.
        """
        nonces, logged = self._get_nonces(), self.keys.derivation and self.keys.derivation.skeyseed
        values: list[bytes] = []
        for other in self.sa.resumable:
            sk_d = get_current_sk_d(other, self.keys.origin.path, self.ppks)
            if sk_d is not None:
                values.append(skeyseed_of_resumption(self._get_prf(other), sk_d, nonces))
        if logged in values:
            return logged
        if not values:
            raise MissingValueError("no key file has the SK_d of the IKE SA that it resumes")
        if not self.sa.has_known_ticket:
            raise MissingValueError(
                "the capture does not show which IKE SA it resumes, and it is none whose SK_d is known"
            )
        return values[0]

    def _get_previous_sk_d(self) -> bytes:
        """SK_d of the previous epoch, from the same key file if it has it."""
        previous = [entry.keys for entry in self.sa.key_sets if entry.epoch == self.epoch - 1]
        previous.sort(key=lambda keys: keys.origin.path != self.keys.origin.path)
        for keys in previous:
            if keys.sk_d is not None:
                return keys.sk_d
        raise MissingValueError(f"no key file has the SK_d of epoch {self.epoch - 1}")

    def _get_nonces(self) -> bytes:
        """The nonces of the capture, or else of the log."""
        inputs = self.keys.derivation
        nonces = self.sa.nonces or (inputs.nonces if inputs is not None else None)
        if nonces is None:
            raise MissingValueError("neither the capture nor the key file has the nonces")
        return nonces

    @staticmethod
    def _get_prf(sa: IkeSaRecord) -> PrfAlgorithm:
        if (prf := find_negotiated_prf(sa)) is None:
            raise MissingValueError(UNKNOWN_PRF)
        return prf

    def _compute_session_keys(self, seed: bytes) -> SessionKeys:
        sa = self.sa
        suite = get_suite(sa.chosen) or _get_suite_of_keys(self.keys)
        if suite is None:
            raise MissingValueError("the negotiated algorithms are unknown")
        try:
            return session_keys(self._get_prf(sa), suite, seed, self._get_nonces(), sa.spi_i, sa.spi_r)
        except ValueError as error:
            raise MissingValueError(str(error)) from None

    def _compare_keys(self, expected: SessionKeys, how: str | None) -> Iterator[VerificationCheck]:
        for name in _NAMES:
            computed, logged = getattr(expected, name), getattr(self.keys, name)
            if computed and not logged:
                yield self._make_missing_check(_format_key_name(name), "it is not in the key file")
            elif computed or logged:
                yield self._compare(_format_key_name(name), computed, logged, how)

    def _check_ppk(self, mixed: PpkKeys) -> Iterator[VerificationCheck]:
        keys = self.keys
        if mixed.ppk is None or None in (getattr(keys, name) for name in _PPK_NAMES):
            yield self._make_missing_check("SK_* with PPK", "the key file lacks values that they are computed from")
            return
        try:
            prf = self._get_prf(self.sa)
        except MissingValueError as error:
            yield self._make_missing_check("SK_* with PPK", str(error))
            return
        expected = mix_in_ppk(prf, SessionKeys(**{name: getattr(keys, name) or b"" for name in _NAMES}), mixed.ppk)
        for name in _PPK_NAMES:
            yield self._compare(f"{_format_key_name(name)} with PPK", getattr(expected, name), getattr(mixed, name))

    def _compare(self, what: str, expected: bytes, found: bytes, how: str | None = None) -> VerificationCheck:
        comparison = compare_values(expected, found, "the value in the key file differs from the computed one")
        return self._make_check(what, how=how, **comparison)

    def _make_missing_check(self, what: str, why: str | None) -> VerificationCheck:
        return self._make_check(what, outcome="not made", why=why)

    def _make_check(self, what: str, **details: Any) -> VerificationCheck:
        return VerificationCheck(self.sa.handshake, what, epoch=self.epoch, origin=self.keys.origin, **details)


def _get_suite_of_keys(keys: KeySet) -> IkeSuite | None:
    """The algorithms named by the key file, if any."""
    algorithm = None if keys.encryption is None else ENCRYPTION.get(keys.encryption)
    if algorithm is None or keys.integrity is None:
        return None
    bits = 8 * (len(keys.sk_ei) - algorithm.salt) if len(algorithm.key_sizes) > 1 else None
    return IkeSuite(algorithm.transform, bits, keys.integrity)


def _format_key_name(name: str) -> str:
    return f"SK_{name.removeprefix('sk_')}"
