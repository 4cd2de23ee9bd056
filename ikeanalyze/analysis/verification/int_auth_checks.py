"""Checks the IntAuth values that authenticate IKE_INTERMEDIATE exchanges (RFC 9242, section 3.3.2)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

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
from ikeanalyze.wire.ikev2.payloads import parse_notify
from ikeanalyze.wire.registries.ikev2 import AUTH_EXCHANGES, ExchangeType, PayloadType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType


@dataclass(frozen=True, slots=True)
class IntAuthValues:
    """The part of the signed octets that comes from IKE_INTERMEDIATE, for both sides."""

    octets: bytes | None = field(repr=False)  # IntAuth; empty: no IKE_INTERMEDIATE; None: it cannot be computed
    missing: str | None  # why it cannot be computed


_NO_VALUES: Final = IntAuthValues(b"", None)


def check_int_auth(sa: IkeSaRecord, logs: DaemonLogIndex) -> tuple[list[VerificationCheck], IntAuthValues]:
    """The checks of one IKE SA, and the values for its AUTH payloads, computed from the capture and the keys."""
    checks: list[VerificationCheck] = []
    values: dict[bool, bytes] = {True: b"", False: b""}
    known = {True: 0, False: 0}  # message ID of the last exchange whose value is known, of each side
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
            if known[side] != content.message_id - 1:
                raise MissingValueError("the value of the IKE_INTERMEDIATE exchange before it is unknown")
            if algorithm is None:
                raise MissingValueError(UNKNOWN_PRF)
            if sk_p is None:
                raise MissingValueError(f"no key file has the {'SK_pi' if side else 'SK_pr'} of its epoch")
            values[side] = int_auth(algorithm, sk_p, values[side], _get_octets(message))
            known[side] = content.message_id
        except MissingValueError as error:
            missing = missing or str(error)
            checks.append(make_message_check(content, "IntAuth", "not made", why=str(error)))
        else:
            checks.extend(_compare(content, values[side], logs, sk_p))
    return checks, IntAuthValues(None, missing) if missing is not None else _combine(sa, values, known)


def _combine(sa: IkeSaRecord, values: Mapping[bool, bytes], known: Mapping[bool, int]) -> IntAuthValues:
    """Combine the last values of both sides; `known`: message IDs of the exchanges that they are of, 0 for none."""
    first = _find_first_auth(sa)
    used = any(known.values())
    if first is None:
        return IntAuthValues(None, "the message ID of the first IKE_AUTH request is unknown") if used else _NO_VALUES
    # without IKE_INTERMEDIATE, what is absent before the first IKE_AUTH message of the capture is an IKE_AUTH message
    if used or _is_intermediate_supported(sa):
        for initiator, last in known.items():
            if last != first - 1:
                side = name_sender(initiator)
                return IntAuthValues(None, f"the capture lacks IKE_INTERMEDIATE messages of the {side}")
    return IntAuthValues(combined_int_auth(values[True], values[False], first), None) if used else _NO_VALUES


def _is_intermediate_supported(sa: IkeSaRecord) -> bool:
    """Whether the responder accepted IKE_INTERMEDIATE exchanges (RFC 9242, section 3.1)."""
    if sa.response is None:
        return False
    notifies = sa.response.content.parse_bodies(PayloadType.NOTIFY, parse_notify)
    return any(notify.type == NotifyType.INTERMEDIATE_EXCHANGE_SUPPORTED for notify in notifies)


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
    """Message ID of the first IKE_AUTH or GSA_AUTH request."""
    messages: list[DecodedMessage | UndecryptedMessage] = [*(sent.content for sent in sa.messages), *sa.undecrypted]
    ids = (message.message_id for message in messages if message.exchange_type in AUTH_EXCHANGES)
    return min(ids, default=None)
