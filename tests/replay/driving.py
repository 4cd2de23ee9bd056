"""An initiator and a responder put together without a network: datagrams are lists, the time is a number."""

from collections.abc import Callable, Sequence

from ikeanalyze.model.retransmission_policy import RetransmissionPolicy
from ikeanalyze.replay.credentials import Credentials, parse_identity
from ikeanalyze.replay.handshake_shape import HandshakeShape
from ikeanalyze.replay.initiator.initiator import Initiator
from ikeanalyze.replay.initiator.interface import DriverStep, InitiatorResult, OutgoingDatagram
from ikeanalyze.wire.ikev2.proposals import Proposal, Transform, TransformAttributeValue

LOCAL, REMOTE = ("192.0.2.1", 500), ("192.0.2.2", 500)
PATIENCE = RetransmissionPolicy("test", (1.0, 2.0, 4.0))
MS = 1_000_000
FRAGMENTATION, HASHES, INTERMEDIATE = (16430, b""), (16431, b"\0\2\0\3\0\4"), (16438, b"")
GCM = Transform(1, 20, (TransformAttributeValue(14, 256),))
CBC = Transform(1, 12, (TransformAttributeValue(14, 256),))
SHA2_256, SHA2_256_128 = Transform(2, 5, ()), Transform(3, 12, ())

Answer = Callable[[bytes], Sequence[bytes]]


def proposal(method: int, *additional: int, aead: bool = True) -> Proposal:
    """AES-256, HMAC-SHA2-256, these key exchanges."""
    more = [Transform(5 + place, value, ()) for place, value in enumerate(additional, 1)]
    protection = [GCM] if aead else [CBC, SHA2_256_128]
    return Proposal(1, 1, b"", (*protection, SHA2_256, Transform(4, method, ()), *more))


def shape(method: int = 31, *additional: int, aead: bool = True, **changes: object) -> HandshakeShape:
    settings: dict = {
        "proposals": (proposal(method, *additional, aead=aead),),
        "key_exchange": method,
        "notifies": (FRAGMENTATION, HASHES, INTERMEDIATE),
        "fragment_size": 600,
        "auth_initiator": "psk",
    } | changes
    return HandshakeShape(**settings)


def credentials(**changes: object) -> Credentials:
    settings: dict = {"local_identity": parse_identity("initiator.lab"), "psk": b"swordfish"} | changes
    return Credentials(**settings)


def initiator(
    shape_: HandshakeShape | None = None, credentials_: Credentials | None = None, **more: object
) -> Initiator:
    settings: dict = {"policy": PATIENCE, "endpoints": (LOCAL, REMOTE)} | more
    return Initiator(shape_ or shape(), credentials_ or credentials(), **settings)


class Wire:
    """Drives. `sent` has all datagrams of the initiator; `lose` says which of them do not arrive."""

    def __init__(self, one: Initiator, answer: Answer) -> None:
        self.initiator, self.answer = one, answer
        self.now = 10**12
        self.sent: list[OutgoingDatagram] = []
        self.lose: Callable[[OutgoingDatagram], bool] = lambda _: False
        self.lose_answer: Callable[[bytes], bool] = lambda _: False

    def run(self, step: DriverStep[InitiatorResult]) -> InitiatorResult:
        """To the end."""
        pending: list[tuple[bytes, int]] = []
        for _ in range(100_000):
            for one in step.send:
                self.sent.append(one)
                if not self.lose(one):
                    result = [data for data in self.answer(one.data) if not self.lose_answer(data)]
                    pending += [(data, one.port) for data in result]
            if step.finished is not None:
                return step.finished
            if pending:
                data, port = pending.pop(0)
                self.now += MS
                step = self.initiator.receive(data, self.now, port)
            else:
                assert step.wake_ns is not None, "it waits for nothing"
                assert step.wake_ns > self.now
                self.now = step.wake_ns
                step = self.initiator.tick(self.now)
        raise AssertionError("no end")

    def begin(self) -> InitiatorResult:
        return self.run(self.initiator.begin(self.now))

    def close(self) -> InitiatorResult:
        return self.run(self.initiator.close(self.now))


def established(shape_: HandshakeShape, responder: object, credentials_: Credentials | None = None) -> Wire:
    """A handshake that has to succeed on both sides."""
    wire = Wire(initiator(shape_, credentials_), responder.answer)  # type: ignore[attr-defined]
    result = wire.begin()
    assert result.established, result.reason
    assert result.reason is None
    assert responder.established  # type: ignore[attr-defined]
    return wire
