"""The TCP transport against a socket that frames messages as RFC 9329 has it."""

import pytest

from ikeanalyze.replay.transport.interface import TransportError
from ikeanalyze.replay.transport.target import Target
from ikeanalyze.replay.transport.tcp import TcpTransport
from tests.replay.peers import free_port
from tests.replay.tcp_peer import NON_ESP_MARKER, framed, tcp_peer

MESSAGE = bytes(range(100))
ANSWER = bytes(reversed(MESSAGE))


def receive_all(one, count):
    return [received.data for _ in range(count) if (received := one.receive(5)) is not None]


def opened(peer, record=lambda *_: None):
    return TcpTransport(Target("127.0.0.1", 500, peer.port), record)


@pytest.mark.parametrize(
    "pieces",
    [
        [framed(NON_ESP_MARKER + ANSWER)],
        [bytes([byte]) for byte in framed(NON_ESP_MARKER + ANSWER)],
        [framed(b"\1\2\3\4ESP") + framed(NON_ESP_MARKER + ANSWER)],
    ],
    ids=["whole", "byte by byte", "after ESP"],
)
def test_messages_are_found_in_the_stream(pieces):
    with tcp_peer(lambda _: pieces) as peer:
        one = opened(peer)
        prepared, _ = one.prepare(MESSAGE, 500)
        one.send(prepared)
        assert receive_all(one, 1) == [ANSWER]
        one.close()
    assert (peer.prefix, peer.got) == (b"IKETCP", [MESSAGE])
    assert (one.counts.sent, one.counts.received) == (1, 1)


def test_messages_in_one_piece_are_separated():
    with tcp_peer(lambda _: [framed(NON_ESP_MARKER + ANSWER) * 3]) as peer:
        one = opened(peer)
        one.send(one.prepare(MESSAGE, 4500)[0])
        assert receive_all(one, 3) == [ANSWER] * 3
        one.close()


@pytest.mark.parametrize(("answer", "problem"), [(b"\0\1", "invalid length of 1"), (b"", "closed the connection")])
def test_the_end_of_the_connection_is_a_network_error(answer, problem):
    def behave(_):
        if not answer:
            raise OSError  # the peer closes
        return [answer]

    with tcp_peer(behave) as peer:
        one = opened(peer)
        one.send(one.prepare(MESSAGE, 500)[0])
        assert one.receive(1) is None
        assert problem in one.counts.refusal
        assert one.counts.refusals[500] == one.counts.refusals[4500] == 1
        assert one.receive(0.01) is None
        one.close()


def test_a_port_that_nobody_listens_on():
    with pytest.raises(TransportError, match=r"no TCP connection to port \d+: Connection refused"):
        TcpTransport(Target("127.0.0.1", 500, free_port()), lambda *_: None)


def test_a_message_that_is_too_long_is_refused():
    with tcp_peer(lambda _: []) as peer:
        one = opened(peer)
        with pytest.raises(TransportError, match="does not fit"):
            one.prepare(bytes(65_530), 500)
        one.prepare(bytes(65_529), 500)
        one.close()
