"""Checks the ICV of each encrypted message with the keys of its IKE SA."""

from collections.abc import Iterator
from typing import Final

from ikeanalyze.analysis.verification.checks import VerificationCheck, describe_message, make_message_check, name_sender
from ikeanalyze.analysis.verification.ike_sas import IkeSaRecord, UndecryptedMessage
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.crypto.algorithms import get_suite
from ikeanalyze.crypto.sk_payload import MessageCipher, UnusableKeyError, select_protection

_IKEV1_REASON: Final = "messages of IKEv1 have no ICV; only IKEv2 is verified"


def check_icvs(sa: IkeSaRecord) -> Iterator[VerificationCheck]:
    """One check per distinct message, in order of frames; one for the whole IKE SA if no key can be used."""
    if sa.version != Protocol.IKEV2:
        yield VerificationCheck(sa.handshake, "ICV", "not made", why=_IKEV1_REASON)
        return
    decrypted = [message.content for message in sa.messages if message.content.encrypted]
    if not decrypted and (why := _find_key_problem(sa)) is not None:
        if sa.undecrypted:
            yield VerificationCheck(sa.handshake, "ICV", "not made", why=why, frame=sa.undecrypted[0].frame)
        return
    checks = [(message.frame, _check_undecrypted(sa, message)) for message in sa.undecrypted]
    for content in decrypted:
        why = None if content.verified else "the keys come without a way to check it"
        check = make_message_check(content, "ICV", "passed" if content.verified else "not made", why=why)
        checks.append((content.frame, check))
    yield from (check for _, check in sorted(checks, key=lambda entry: entry[0]))


def _check_undecrypted(sa: IkeSaRecord, message: UndecryptedMessage) -> VerificationCheck:
    sender = name_sender(message.from_initiator)
    missing = message.missing
    if missing is None and not _has_keys_of_sender(sa, from_initiator=message.from_initiator):
        missing = f"the key files have no keys for messages of the {sender}"
    missing = missing or _find_missing_epoch(sa, message)
    return VerificationCheck(
        sa.handshake,
        "ICV",
        "failed" if missing is None else "not made",
        why=missing or _explain_undecrypted(sa, message),
        side=sender,
        exchange=describe_message(message.exchange_type, message.message_id, message.response),
        frame=message.frame,
    )


def _find_missing_epoch(sa: IkeSaRecord, message: UndecryptedMessage) -> str | None:
    """Which keys of the IKE SA are not in the key files; None: those of the message's epoch are."""
    if sa.chosen is None or any(entry.epoch == message.epoch for entry in sa.key_sets):
        return None
    return f"no key file has the SK_e{'i' if message.from_initiator else 'r'} of epoch {message.epoch}"


def _has_keys_of_sender(sa: IkeSaRecord, *, from_initiator: bool) -> bool:
    """Whether a usable key set of the IKE SA has keys for messages of this side."""
    for entry in sa.key_sets:
        try:
            protection = select_protection(entry.keys, get_suite(sa.chosen))
        except UnusableKeyError:
            continue
        if protection.initiator if from_initiator else protection.responder:
            return True
    return False


def _explain_undecrypted(sa: IkeSaRecord, message: UndecryptedMessage) -> str:
    """Why a complete message could not be decrypted."""
    side = "i" if message.from_initiator else "r"
    for entry in sa.key_sets:
        try:
            decryptor = MessageCipher(entry.keys, get_suite(sa.chosen))
        except UnusableKeyError:
            continue
        if decryptor.has_wrong_encryption_key(message.data, message.from_initiator):
            return f"it fits with SK_a{side}, but SK_e{side} is wrong: it gives no valid padding or payloads"
    return "no key of its IKE SA verifies it"


def _find_key_problem(sa: IkeSaRecord) -> str | None:
    """Why no key set can be used for the IKE SA; None: at least one can."""
    why = "the key files have no key of its IKE SA"
    for entry in sa.key_sets:
        try:
            MessageCipher(entry.keys, get_suite(sa.chosen))
        except UnusableKeyError as error:
            why = f"its keys cannot be used: {error}"
        else:
            return None
    return why
