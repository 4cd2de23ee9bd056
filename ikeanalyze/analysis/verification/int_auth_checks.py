"""Checks the IntAuth values that authenticate IKE_INTERMEDIATE exchanges (RFC 9242, section 3.3.2)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage
from ikeanalyze.analysis.verification.checks import (
    UNKNOWN_PRF,
    MissingValueError,
    VerificationCheck,
    compare_values,
    make_message_check,
    name_sender,
)
from ikeanalyze.analysis.verification.daemon_log_index import DaemonLogIndex
from ikeanalyze.analysis.verification.ike_sas import IkeSaRecord, SentMessage, UndecryptedMessage
from ikeanalyze.crypto.algorithms import get_prf
from ikeanalyze.crypto.auth import combined_int_auth, get_int_auth_octets, int_auth
from ikeanalyze.crypto.sk_payload import DecryptedMessage
from ikeanalyze.wire.registries.ikev2 import ExchangeType


@dataclass(frozen=True, slots=True)
class IntAuthValues:
    """The part of the signed octets that comes from IKE_INTERMEDIATE, for both sides."""

    octets: bytes | None = field(repr=False)  # IntAuth; empty: no IKE_INTERMEDIATE; None: it cannot be computed
    missing: str | None  # why it cannot be computed


def check_int_auth(sa: IkeSaRecord, logs: DaemonLogIndex) -> tuple[list[VerificationCheck], IntAuthValues]:
    """The checks of one IKE SA, and the values for its AUTH payloads, computed from the capture and the keys."""
    checks: list[VerificationCheck] = []
    values: dict[bool, bytes] = {True: b"", False: b""}
    missing: str | None = None
    sent = [sent for sent in sa.messages if sent.content.exchange_type == ExchangeType.IKE_INTERMEDIATE]
    undecrypted = [message for message in sa.undecrypted if message.exchange_type == ExchangeType.IKE_INTERMEDIATE]
    if undecrypted:
        missing = "not all IKE_INTERMEDIATE messages could be decrypted"
    for message in sorted(_select_first_transmissions(sent), key=lambda message: message.content.message_id):
        content = message.content
        side = content.from_initiator
        keys = content.keys
        sk_p = None if keys is None else keys.sk_pi if side else keys.sk_pr
        algorithm = get_prf(sa.chosen)
        try:
            if any(other.from_initiator == side and other.message_id < content.message_id for other in undecrypted):
                raise MissingValueError("an IKE_INTERMEDIATE message before it could not be decrypted")
            if algorithm is None:
                raise MissingValueError(UNKNOWN_PRF)
            if sk_p is None:
                raise MissingValueError(f"no key file has the {'SK_pi' if side else 'SK_pr'} of its epoch")
            values[side] = int_auth(algorithm, sk_p, values[side], _get_octets(message))
        except MissingValueError as error:
            missing = missing or str(error)
            checks.append(make_message_check(content, "IntAuth", "not made", why=str(error)))
        else:
            checks.extend(_compare(content, values[side], logs, sk_p))
    if missing is None and bool(values[True]) != bool(values[False]):
        missing = "the capture lacks IKE_INTERMEDIATE messages of one side"
    if missing is not None:
        return checks, IntAuthValues(None, missing)
    if not sent:
        return checks, IntAuthValues(b"", None)
    first = _find_first_auth(sa)
    if first is None:
        return checks, IntAuthValues(None, "the message ID of the first IKE_AUTH request is unknown")
    return checks, IntAuthValues(combined_int_auth(values[True], values[False], first), None)


def _select_first_transmissions(sent: Sequence[SentMessage]) -> list[SentMessage]:
    """One message for each exchange and side."""
    first: dict[tuple[bool, int], SentMessage] = {}
    for message in sent:
        first.setdefault((message.content.from_initiator, message.content.message_id), message)
    return list(first.values())


def _get_octets(message: SentMessage) -> bytes:
    try:
        return get_int_auth_octets(
            message.message, DecryptedMessage(message.content.plaintext, message.content.first, True)
        )
    except ValueError:
        raise MissingValueError("its message cannot be written as it was before encryption") from None


def _compare(content: DecodedMessage, value: bytes, logs: DaemonLogIndex, sk_p: bytes) -> Iterator[VerificationCheck]:
    """Compare the value with those of all logs."""
    records = {
        record.value: record
        for record in reversed(logs.int_auths.get(sk_p, ()))
        if record.message_id == content.message_id and record.side == name_sender(content.from_initiator)
    }
    if not records:
        why = "no key file has the value of a peer to compare it with"
        yield make_message_check(content, "IntAuth", "not made", why=why)
    for record in reversed(records.values()):
        comparison = compare_values(value, record.value, "the log has another value than what follows")
        yield make_message_check(content, "IntAuth", origin=record.origin, **comparison)


def _find_first_auth(sa: IkeSaRecord) -> int | None:
    """Message ID of the first IKE_AUTH request."""
    messages: list[DecodedMessage | UndecryptedMessage] = [*(sent.content for sent in sa.messages), *sa.undecrypted]
    ids = (message.message_id for message in messages if message.exchange_type == ExchangeType.IKE_AUTH)
    return min(ids, default=None)
