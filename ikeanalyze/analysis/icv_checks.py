"""Checks of encrypted messages: whether the ICV of each fits, with some key of its IKE SA."""

from collections.abc import Iterator

from ikeanalyze.analysis.checks import Check, message_name, side_of
from ikeanalyze.analysis.ike_sas import Closed, IkeSa
from ikeanalyze.analysis.suites import suite_of
from ikeanalyze.capture.datagrams import Protocol
from ikeanalyze.keys.sealed import KeyUnusable, Opener


def icv_checks(sa: IkeSa) -> Iterator[Check]:
    """One for each distinct message, in their order; one for the whole IKE SA where there is no key for it."""
    if sa.version != Protocol.IKEV2:
        yield Check(sa.handshake, "ICV", "not made", why="messages of IKEv1 have none; only IKEv2 is verified")
        return
    opened = [one.content for one in sa.messages if one.content.encrypted]
    if not opened and (lacks := _unusable(sa)) is not None:
        if sa.closed:
            yield Check(sa.handshake, "ICV", "not made", why=lacks, frame=sa.closed[0].frame)
        return
    found: list[tuple[int, Check]] = [(one.frame, _closed(sa, one)) for one in sa.closed]
    for content in opened:
        check = Check(
            sa.handshake,
            "ICV",
            "passed" if content.verified else "not made",
            why=None if content.verified else "the keys come without a way to check it",
            epoch=content.epoch,
            side=side_of(content.from_initiator),
            exchange=message_name(content.exchange_type, content.message_id, content.response),
            frame=content.frame,
        )
        found.append((content.frame, check))
    yield from (check for _, check in sorted(found, key=lambda one: one[0]))


def _closed(sa: IkeSa, message: Closed) -> Check:
    return Check(
        sa.handshake,
        "ICV",
        "failed" if message.lacks is None else "not made",
        why=message.lacks or "it fits with none of the keys of its IKE SA",
        side=side_of(message.from_initiator),
        exchange=message_name(message.exchange_type, message.message_id, message.response),
        frame=message.frame,
    )


def _unusable(sa: IkeSa) -> str | None:
    """Why no key set can be tried on the IKE SA; None: some can."""
    why = "the key files have no key of its IKE SA"
    for one in sa.key_sets:
        try:
            Opener(one.keys, suite_of(sa.chosen))
        except KeyUnusable as problem:
            why = f"its keys cannot be used: {problem.reason}"
        else:
            return None
    return why
