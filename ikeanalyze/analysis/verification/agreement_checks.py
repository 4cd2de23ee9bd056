"""Checks that the logs of both peers agree: the first value on which the two sides disagree.

The values are compared in the order in which they are derived (RFC 7296, sections 2.14 and 2.15): of each epoch the
nonces, the key exchange secret, SKEYSEED and SK_*; then of each AUTH payload the identity, the signed octets and the
secret, which is the pre-shared key or the MSK. A value that follows from a wrong one is wrong too, so only the first
difference is shown.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from ikeanalyze.analysis.verification.checks import VerificationCheck, compute_digest
from ikeanalyze.analysis.verification.daemon_log_index import DaemonLogIndex
from ikeanalyze.analysis.verification.ike_sas import IkeSaRecord
from ikeanalyze.keys.charon.model import LoggedAuth, Side
from ikeanalyze.keys.key_set import KeySet, Origin

_NAME: Final = "agreement"
_KEYS: Final = ("sk_d", "sk_ai", "sk_ar", "sk_ei", "sk_er", "sk_pi", "sk_pr")


@dataclass(frozen=True, slots=True)
class _LoggedValue:
    """A value that the logs of both peers have."""

    name: str
    one: bytes = field(repr=False)
    other: bytes = field(repr=False)
    guessable: bool = False  # of a pre-shared key not even a digest may be shown


def check_agreement(sa: IkeSaRecord, logs: DaemonLogIndex) -> Iterator[VerificationCheck]:
    """Compare the values of one IKE SA in the first two logs that have its key derivations; nothing with one log."""
    paths = list(dict.fromkeys(entry.keys.origin.path for entry in sa.key_sets if entry.keys.derivation is not None))
    if len(paths) < 2:
        return
    one, other = (
        {entry.epoch: entry.keys for entry in reversed(sa.key_sets) if entry.keys.origin.path == path}
        for path in paths[:2]
    )
    for epoch in sorted(one.keys() & other.keys()):
        yield (check := _check_epoch(sa, epoch, one[epoch], other[epoch]))
        if check.outcome == "failed":
            return
    last = max(one.keys() & other.keys(), default=None)
    if last is not None:
        yield from _check_auths(sa, logs, one[last], other[last])


def _check_epoch(sa: IkeSaRecord, epoch: int, one: KeySet, other: KeySet) -> VerificationCheck:
    return _compare(sa, list(_list_key_values(one, other)), one.origin, other.origin, epoch=epoch)


def _list_key_values(one: KeySet, other: KeySet) -> Iterator[_LoggedValue]:
    first, second = one.derivation, other.derivation
    if first is not None and second is not None:
        for name, value, counterpart in (
            ("nonces", first.nonces, second.nonces),
            ("key exchange secret", first.secret, second.secret),
            ("SKEYSEED", first.skeyseed, second.skeyseed),
        ):
            if value is not None and counterpart is not None:
                yield _LoggedValue(name, value, counterpart)
    for key in _KEYS:
        value, counterpart = getattr(one, key), getattr(other, key)
        if value is not None and counterpart is not None:
            yield _LoggedValue(key.replace("sk_", "SK_"), value, counterpart)


def _check_auths(sa: IkeSaRecord, logs: DaemonLogIndex, one: KeySet, other: KeySet) -> Iterator[VerificationCheck]:
    """Compare what both logs have of the AUTH payload of each side."""
    sides: tuple[tuple[Side, bytes | None], ...] = (("initiator", one.sk_pi), ("responder", one.sk_pr))
    for side, sk_p in sides:
        auths = logs.auths.get(sk_p, []) if sk_p is not None else []
        first, second = (_find_auth(auths, keys.origin.path) for keys in (one, other))
        if first is None or second is None:
            continue
        values = [
            _LoggedValue("identity", first.identity, second.identity),
            _LoggedValue("signed octets", first.octets, second.octets),
        ]
        if first.secret is not None and second.secret is not None:
            name = "MSK" if first.method == "EAP" else "pre-shared key"
            values.append(_LoggedValue(name, first.secret, second.secret, guessable=True))
        yield (check := _compare(sa, values, first.origin, second.origin, side=side))
        if check.outcome == "failed":
            return


def _find_auth(auths: Sequence[LoggedAuth], path: str) -> LoggedAuth | None:
    """The last entry of a log; the first ones may be attempts with other secrets."""
    return next((auth for auth in reversed(auths) if auth.origin.path == path), None)


def _compare(
    sa: IkeSaRecord,
    values: Sequence[_LoggedValue],
    one: Origin,
    other: Origin,
    *,
    epoch: int | None = None,
    side: Side | None = None,
) -> VerificationCheck:
    for value in values:
        if value.one != value.other:
            shown = (None, None) if value.guessable else (compute_digest(value.one), compute_digest(value.other))
            return VerificationCheck(
                sa.handshake,
                _NAME,
                "failed",
                why=f"the two sides disagree first on the {value.name}: {one} and {other}",
                expected=shown[0],
                found=shown[1],
                epoch=epoch,
                side=side,
                origin=other,
            )
    return VerificationCheck(sa.handshake, _NAME, "passed", epoch=epoch, side=side, origin=other)
