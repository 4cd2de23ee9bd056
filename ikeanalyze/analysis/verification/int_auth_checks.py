"""Checks of how the IKE_INTERMEDIATE exchanges are authenticated (RFC 9242, section 3.3.2)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ikeanalyze.analysis.verification.checks import (
    VerificationCheck,
    compare_values,
    compute_digest,
    describe_message,
    name_sender,
)
from ikeanalyze.analysis.verification.daemon_log_index import DaemonLogIndex
from ikeanalyze.analysis.verification.ike_sas import IkeSaRecord, SentMessage
from ikeanalyze.crypto.algorithms import get_prf
from ikeanalyze.crypto.auth import combined_int_auth, get_int_auth_octets, int_auth
from ikeanalyze.crypto.sk_payload import DecryptedMessage
from ikeanalyze.wire.registries.ikev2 import ExchangeType


@dataclass(frozen=True, slots=True)
class IntAuthValues:
    """What IKE_INTERMEDIATE adds to the signed octets of both sides."""

    octets: bytes | None = field(repr=False)  # IntAuth; empty: there was none; None: it cannot be computed
    lacks: str | None  # why it cannot


def check_int_auth(sa: IkeSaRecord, logs: DaemonLogIndex) -> tuple[list[VerificationCheck], IntAuthValues]:
    """The checks of one IKE SA, and what its AUTH payloads need of them. Values come from the capture and the keys."""
    checks: list[VerificationCheck] = []
    values: dict[bool, bytes] = {True: b"", False: b""}
    lacks: str | None = None
    sent = [one for one in sa.messages if one.content.exchange_type == ExchangeType.IKE_INTERMEDIATE]
    closed = [one for one in sa.closed if one.exchange_type == ExchangeType.IKE_INTERMEDIATE]
    if closed:
        lacks = "not all IKE_INTERMEDIATE messages could be decrypted"
    for one in sorted(_first_of_each(sent), key=lambda one: one.content.message_id):
        content = one.content
        side = content.from_initiator
        keys = content.keys
        sk_p = None if keys is None else keys.sk_pi if side else keys.sk_pr
        algorithm = get_prf(sa.chosen)
        missed = any(other.from_initiator == side and other.message_id < content.message_id for other in closed)
        why = _lacks(algorithm is not None, sk_p is not None, missed, side)
        if why is None and algorithm is not None and sk_p is not None:
            octets = _octets(one)
            if octets is None:
                why = "its message cannot be written as it was before encryption"
            else:
                values[side] = int_auth(algorithm, sk_p, values[side], octets)
        if why is not None:
            lacks = lacks or why
            checks.append(_check(sa, one, why))
            continue
        checks.extend(_compared(sa, one, values[side], logs, sk_p or b""))
    if lacks is None and bool(values[True]) != bool(values[False]):
        lacks = "the capture lacks IKE_INTERMEDIATE messages of one side"
    if lacks is not None:
        return checks, IntAuthValues(None, lacks)
    if not sent:
        return checks, IntAuthValues(b"", None)
    first = _first_auth(sa)
    if first is None:
        return checks, IntAuthValues(None, "the capture has no IKE_AUTH request of which the message ID is known")
    return checks, IntAuthValues(combined_int_auth(values[True], values[False], first), None)


def _first_of_each(sent: Sequence[SentMessage]) -> list[SentMessage]:
    """One for each exchange and side."""
    found: dict[tuple[bool, int], SentMessage] = {}
    for one in sent:
        found.setdefault((one.content.from_initiator, one.content.message_id), one)
    return list(found.values())


def _lacks(algorithm: bool, sk_p: bool, missed: bool, side: bool) -> str | None:
    if missed:
        return "an IKE_INTERMEDIATE message before it could not be decrypted"
    if not algorithm:
        return "which PRF was negotiated is not known, or the PRF is not"
    if not sk_p:
        return f"no key file has the {'SK_pi' if side else 'SK_pr'} of its epoch"
    return None


def _octets(one: SentMessage) -> bytes | None:
    try:
        return get_int_auth_octets(one.message, DecryptedMessage(one.content.plaintext, one.content.first, True))
    except ValueError:
        return None


def _compared(
    sa: IkeSaRecord, one: SentMessage, value: bytes, logs: DaemonLogIndex, sk_p: bytes
) -> list[VerificationCheck]:
    """Against each value that some log has."""
    content = one.content
    records = {
        record.value: record
        for record in reversed(logs.int_auths.get(sk_p, ()))
        if record.message_id == content.message_id and record.side == name_sender(content.from_initiator)
    }
    if not records:
        return [_check(sa, one, "no key file has the value of a peer to compare it with")]
    found = []
    for record in reversed(records.values()):
        outcome = compare_values(value, record.value)
        found.append(
            VerificationCheck(
                sa.handshake,
                "IntAuth",
                outcome,
                why=None if outcome == "passed" else "the log has another value than what follows",
                expected=compute_digest(value),
                found=compute_digest(record.value),
                epoch=content.epoch,
                side=name_sender(content.from_initiator),
                exchange=describe_message(content.exchange_type, content.message_id, content.response),
                frame=content.frame,
                origin=record.origin,
            )
        )
    return found


def _check(sa: IkeSaRecord, one: SentMessage, why: str) -> VerificationCheck:
    content = one.content
    return VerificationCheck(
        sa.handshake,
        "IntAuth",
        "not made",
        why=why,
        epoch=content.epoch,
        side=name_sender(content.from_initiator),
        exchange=describe_message(content.exchange_type, content.message_id, content.response),
        frame=content.frame,
    )


def _first_auth(sa: IkeSaRecord) -> int | None:
    """Message ID of the first IKE_AUTH request."""
    known = [one.content for one in sa.messages if one.content.exchange_type == ExchangeType.IKE_AUTH]
    ids = [one.message_id for one in known]
    ids += [one.message_id for one in sa.closed if one.exchange_type == ExchangeType.IKE_AUTH]
    return min(ids, default=None)
