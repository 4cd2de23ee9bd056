"""Checks of encrypted messages: whether the ICV of each fits, with some key of its IKE SA."""

from collections.abc import Iterator

from ikeanalyze.analysis.verification.checks import VerificationCheck, describe_message, name_sender
from ikeanalyze.analysis.verification.ike_sas import IkeSaRecord, UndecryptedMessage
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.crypto.algorithms import get_suite
from ikeanalyze.crypto.sk_payload import Decryptor, UnusableKeyError


def check_icvs(sa: IkeSaRecord) -> Iterator[VerificationCheck]:
    """One for each distinct message, in their order; one for the whole IKE SA where there is no key for it."""
    if sa.version != Protocol.IKEV2:
        yield VerificationCheck(
            sa.handshake, "ICV", "not made", why="messages of IKEv1 have none; only IKEv2 is verified"
        )
        return
    opened = [one.content for one in sa.messages if one.content.encrypted]
    if not opened and (lacks := _unusable(sa)) is not None:
        if sa.closed:
            yield VerificationCheck(sa.handshake, "ICV", "not made", why=lacks, frame=sa.closed[0].frame)
        return
    found: list[tuple[int, VerificationCheck]] = [(one.frame, _closed(sa, one)) for one in sa.closed]
    for content in opened:
        check = VerificationCheck(
            sa.handshake,
            "ICV",
            "passed" if content.verified else "not made",
            why=None if content.verified else "the keys come without a way to check it",
            epoch=content.epoch,
            side=name_sender(content.from_initiator),
            exchange=describe_message(content.exchange_type, content.message_id, content.response),
            frame=content.frame,
        )
        found.append((content.frame, check))
    yield from (check for _, check in sorted(found, key=lambda one: one[0]))


def _closed(sa: IkeSaRecord, message: UndecryptedMessage) -> VerificationCheck:
    return VerificationCheck(
        sa.handshake,
        "ICV",
        "failed" if message.lacks is None else "not made",
        why=message.lacks or "it fits with none of the keys of its IKE SA",
        side=name_sender(message.from_initiator),
        exchange=describe_message(message.exchange_type, message.message_id, message.response),
        frame=message.frame,
    )


def _unusable(sa: IkeSaRecord) -> str | None:
    """Why no key set can be tried on the IKE SA; None: some can."""
    why = "the key files have no key of its IKE SA"
    for one in sa.key_sets:
        try:
            Decryptor(one.keys, get_suite(sa.chosen))
        except UnusableKeyError as problem:
            why = f"its keys cannot be used: {problem.reason}"
        else:
            return None
    return why
