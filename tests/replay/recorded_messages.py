"""Recorded handshakes made by craft, without a capture."""

from ikeanalyze.replay.session.recorded_messages import RecordedHandshake, RecordedMessage
from tests.craft import Handshake, ike
from tests.craft.handshake import Message

MS = 1_000_000
START = 10**18


def recorded(message: Message, at_ms: float, exchange: int, *, part: int = 0, transmission: int = 1) -> RecordedMessage:
    port = 4500 if 4500 in (message.sport, message.dport) else 500
    several = len(message.ike) > 1
    return RecordedMessage(
        time_ns=START + round(at_ms * MS),
        data=message.ike[part],
        role=port,
        source=(message.source, message.sport),
        destination=(message.destination, message.dport),
        from_initiator=message.from_initiator,
        response=message.response,
        exchange_type=message.exchange_type,
        message_id=message.message_id,
        transmission=transmission,
        fragment=part + 1 if several else None,
        fragments=len(message.ike) if several else None,
        exchange=exchange,
    )


def hybrid() -> RecordedHandshake:
    """IKE_SA_INIT at 0 ms, IKE_INTERMEDIATE in two fragments at 10 ms and again at 1,010 ms, IKE_AUTH at 1,030 ms."""
    handshake = Handshake(3, proposals=[ike.HYBRID])
    init, init_reply = handshake.init()[:2]
    middle, middle_reply = handshake.intermediate(fragments=(2, 1))[:2]
    auth, auth_reply = handshake.auth()[:2]
    return RecordedHandshake(
        1,
        (
            recorded(init, 0, 1),
            recorded(init_reply, 5, 1),
            recorded(middle, 10, 2),
            recorded(middle, 10, 2, part=1),
            recorded(middle, 1010, 2, transmission=2),
            recorded(middle, 1010, 2, part=1, transmission=2),
            recorded(middle_reply, 1020, 2),
            recorded(auth, 1030, 3),
            recorded(auth_reply, 1040, 3),
        ),
    )
