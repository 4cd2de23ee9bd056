"""Checks of a key schedule: what a log has, against what follows from the step before.

Each step takes what the log says of the step before as given, so that the first wrong step fails, and no other:
SKEYSEED from the key exchange secret, the nonces of the capture and, where there is one, the SK_d of the epoch or IKE SA
before; SK_* from the SKEYSEED of the log, the nonces and the SPIs of the capture.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ikeanalyze.analysis.verification.checks import VerificationCheck, compare_values, compute_digest
from ikeanalyze.analysis.verification.ike_sas import EpochKeys, IkeSaRecord, Values, get_key_values
from ikeanalyze.crypto.algorithms import ENCRYPTION, IkeSuite, PrfAlgorithm, find_prf, get_prf, get_suite
from ikeanalyze.crypto.key_schedule import (
    SessionKeys,
    mix_in_ppk,
    session_keys,
    skeyseed,
    skeyseed_after_additional,
    skeyseed_of_rekeying,
)
from ikeanalyze.keys.charon.model import PpkKeys
from ikeanalyze.keys.key_set import KeySet

_NAMES: Final = ("sk_d", "sk_ai", "sk_ar", "sk_ei", "sk_er", "sk_pi", "sk_pr")
_OF_PPK: Final = ("sk_d", "sk_pi", "sk_pr")

Ppks = Mapping[Values, Sequence[PpkKeys]]


class MissingValueError(Exception):
    """A check cannot be made: what is missing."""


def check_key_schedule(sa: IkeSaRecord, ppks: Ppks) -> Iterator[VerificationCheck]:
    """The checks of one IKE SA's key sets, epoch by epoch. `ppks`: keys made with a PPK, by the keys that they replace.

    What two files say alike is checked once; a file without secrets adds nothing to one that has them.
    """
    done: set[object] = set()
    derived = {(one.epoch, get_key_values(one.keys)) for one in sa.key_sets if one.keys.derivation is not None}
    for one in sa.key_sets:
        keys, d = one.keys, one.keys.derivation
        if d is None and (one.epoch, get_key_values(keys)) in derived:
            continue
        said = d and (d.secret, d.additional, d.nonces, d.skeyseed)
        alike = one.epoch, get_key_values(keys), keys.sk_d, keys.sk_pi, keys.sk_pr, said
        if alike not in done:
            done.add(alike)
            yield from _Epoch(sa, one, ppks).checks()


def get_current_sk_d(sa: IkeSaRecord, path: str, ppks: Ppks) -> bytes | None:
    """The SK_d from which an IKE SA's successors are derived, as one file has it, or else any (RFC 8784, section 3)."""
    found = _latest([one for one in sa.key_sets if one.keys.origin.path == path] or sa.key_sets)
    if found is None:
        found = _latest(sa.key_sets)
    if found is None:
        return None
    mixed = ppks.get(get_key_values(found))
    return mixed[-1].sk_d if mixed else found.sk_d


def _latest(key_sets: Sequence[EpochKeys]) -> KeySet | None:
    """Of the last epoch that has an SK_d."""
    return next((one.keys for one in reversed(key_sets) if one.keys.sk_d is not None), None)


@dataclass(frozen=True, slots=True)
class _Epoch:
    """One key set of an IKE SA."""

    sa: IkeSaRecord
    one: EpochKeys
    ppks: Ppks

    def checks(self) -> Iterator[VerificationCheck]:
        """All of it."""
        keys, d = self.one.keys, self.one.keys.derivation
        if self.sa.nonces is not None and d is not None and d.nonces is not None:
            yield self._compared("nonces", self.sa.nonces, d.nonces)
        seed, made, why = None, None, None
        try:
            made = self._skeyseed()
        except MissingValueError as missing:
            why = str(missing)
        if d is not None and d.skeyseed is not None:
            seed = d.skeyseed
            if made is None:
                yield self._not_made("SKEYSEED", why)
            else:
                yield self._compared("SKEYSEED", made, seed)
        else:
            seed = made
            yield self._not_made("SKEYSEED", why or "it is not in the key file")
        try:
            if seed is None:
                raise MissingValueError("there is no SKEYSEED to derive them from")
            expected = self._session_keys(seed)
        except MissingValueError as missing:
            yield self._not_made("SK_*", str(missing))
        else:
            how = None if seed is not made or d is None or d.skeyseed is not None else "SKEYSEED as derived"
            yield from self._compare_keys(keys, expected, how)
        for ppk in self.ppks.get(get_key_values(keys), ()):
            yield from self._ppk(ppk)

    def _skeyseed(self) -> bytes:
        """SKEYSEED from the secret and the step before."""
        sa, epoch, d = self.sa, self.one.epoch, self.one.keys.derivation
        if d is None or d.secret is None:
            raise MissingValueError("the key file has no key exchange secret")
        nonces = self._nonces()
        if epoch > 0:
            before = self._before()
            return skeyseed_after_additional(self._prf(), before, d.secret, nonces)
        if sa.parent is not None:
            sk_d = get_current_sk_d(sa.parent, self.one.keys.origin.path, self.ppks)
            if sk_d is None:
                raise MissingValueError("no key file has the SK_d of the IKE SA that it replaces")
            algorithm = self._prf(sa.parent)
            return skeyseed_of_rekeying(algorithm, sk_d, (d.secret, *d.additional), nonces)
        if sa.request is None or sa.response is None or sa.nonce_i is None or sa.nonce_r is None:
            raise MissingValueError("the capture has neither its IKE_SA_INIT exchange nor the rekeying that made it")
        return skeyseed(self._prf(), d.secret, sa.nonce_i, sa.nonce_r)

    def _before(self) -> bytes:
        """SK_d of the epoch before, of the same file if it has it."""
        wanted = [one for one in self.sa.key_sets if one.epoch == self.one.epoch - 1 and one.keys.sk_d is not None]
        wanted.sort(key=lambda one: one.keys.origin.path != self.one.keys.origin.path)
        sk_d = wanted[0].keys.sk_d if wanted else None
        if sk_d is None:
            raise MissingValueError(f"no key file has the SK_d of epoch {self.one.epoch - 1}")
        return sk_d

    def _nonces(self) -> bytes:
        """Of the capture, or else of the log."""
        d = self.one.keys.derivation
        nonces = self.sa.nonces or (d.nonces if d is not None else None)
        if nonces is None:
            raise MissingValueError("neither the capture nor the key file has the nonces")
        return nonces

    def _prf(self, sa: IkeSaRecord | None = None) -> PrfAlgorithm:
        """What was negotiated, or else what the log says."""
        sa = sa or self.sa
        algorithm = get_prf(sa.chosen)
        if algorithm is None:
            names = (one.keys.derivation.prf for one in sa.key_sets if one.keys.derivation is not None)
            known = [found for name in names if name is not None and (found := find_prf(name)) is not None]
            algorithm = known[0] if known else None
        if algorithm is None:
            raise MissingValueError("which PRF was negotiated is not known, or the PRF is not")
        return algorithm

    def _session_keys(self, seed: bytes) -> SessionKeys:
        suite = get_suite(self.sa.chosen) or _suite_of_keys(self.one.keys)
        if suite is None:
            raise MissingValueError("which algorithms were negotiated is not known")
        try:
            return session_keys(self._prf(), suite, seed, self._nonces(), self.sa.spi_i, self.sa.spi_r)
        except ValueError as error:
            raise MissingValueError(str(error)) from None

    def _compare_keys(self, keys: KeySet, expected: SessionKeys, how: str | None) -> Iterator[VerificationCheck]:
        for name in _NAMES:
            wanted, found = getattr(expected, name), getattr(keys, name)
            if wanted and not found:
                yield self._not_made(_spelled(name), "it is not in the key file")
            elif wanted or found:
                yield self._compared(_spelled(name), wanted, found, how)

    def _ppk(self, mixed: PpkKeys) -> Iterator[VerificationCheck]:
        keys = self.one.keys
        values = {name: getattr(keys, name) for name in _OF_PPK}
        if mixed.ppk is None or None in values.values():
            yield self._not_made("SK_* with PPK", "the key file has not all that goes into them")
            return
        try:
            algorithm = self._prf()
        except MissingValueError as missing:
            yield self._not_made("SK_* with PPK", str(missing))
            return
        made = mix_in_ppk(algorithm, SessionKeys(**{name: getattr(keys, name) or b"" for name in _NAMES}), mixed.ppk)
        for name in _OF_PPK:
            yield self._compared(f"{_spelled(name)} with PPK", getattr(made, name), getattr(mixed, name))

    def _compared(self, what: str, expected: bytes, found: bytes, how: str | None = None) -> VerificationCheck:
        outcome = compare_values(expected, found)
        return VerificationCheck(
            self.sa.handshake,
            what,
            outcome,
            why=None if outcome == "passed" else "the key file has another value than what follows",
            how=how,
            expected=compute_digest(expected),
            found=compute_digest(found),
            epoch=self.one.epoch,
            origin=self.one.keys.origin,
        )

    def _not_made(self, what: str, why: str | None) -> VerificationCheck:
        return VerificationCheck(
            self.sa.handshake, what, "not made", why=why, epoch=self.one.epoch, origin=self.one.keys.origin
        )


def _suite_of_keys(keys: KeySet) -> IkeSuite | None:
    """The algorithms as the file has them, which says them where the capture does not."""
    algorithm = None if keys.encryption is None else ENCRYPTION.get(keys.encryption)
    if algorithm is None or keys.integrity is None:
        return None
    bits = 8 * (len(keys.sk_ei) - algorithm.salt) if len(algorithm.key_sizes) > 1 else None
    return IkeSuite(algorithm.transform, bits, keys.integrity)


def _spelled(name: str) -> str:
    return f"SK_{name.removeprefix('sk_')}"
