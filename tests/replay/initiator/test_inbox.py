"""What becomes of each datagram, with a responder's real keys."""

import struct

import pytest

from ikeanalyze.replay.initiator.inbox import MAX_BYTES, MAX_DATAGRAMS, Inbox
from ikeanalyze.replay.initiator.interface import IgnoredDatagrams
from ikeanalyze.replay.initiator.pending_request import PendingRequest
from tests.craft import ike
from tests.replay.driving import MS, initiator
from tests.replay.responder import SPI_R, Responder

SPI_I = b"INITIATO"


def answer(ident=0, spi_i=SPI_I, spi_r=SPI_R, exchange=34, flags=ike.RESPONSE):
    return ike.message(spi_i, spi_r, exchange, flags, ident, [ike.nonce(b"n" * 16)])


def inbox():
    exchanges = [PendingRequest(34, 0, 1, [b"request"], 500, [1.0])]
    exchanges[0].transmit(0)
    return Inbox(SPI_I, exchanges), exchanges


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "garbage"),
        (answer()[:27], "garbage"),
        (answer() + b"x", "garbage"),
        (answer()[:17] + b"\x10" + answer()[18:], "garbage"),  # IKEv1
        (answer(spi_i=b"SOMEBODY"), "foreign"),
        (answer(flags=ike.RESPONSE | ike.INITIATOR), "foreign"),
        (answer(flags=0), "unexpected"),
        (answer(ident=1), "unexpected"),
        (answer(exchange=35), "unexpected"),
    ],
)
def test_other_datagrams_are_ignored(data, reason):
    box, exchanges = inbox()
    assert box.add_datagram(data, 500, awaiting_response=True) is None
    assert box.ignored == IgnoredDatagrams(**{reason: 1})
    assert exchanges[0].get_stats().datagrams_received == 0


def test_a_response_is_taken_once_and_from_its_endpoint():
    box, exchanges = inbox()
    arrived = box.add_datagram(answer(), 500, awaiting_response=True)
    assert (arrived.message, arrived.decrypted) == (answer(), None)
    assert exchanges[0].get_stats().bytes_received == len(answer())
    assert box.add_datagram(answer(), 500, awaiting_response=False) is None
    assert box.add_datagram(answer(), 4500, awaiting_response=True) is None
    assert box.ignored == IgnoredDatagrams(repeated=1, foreign=1)
    assert exchanges[0].get_stats().datagrams_received == 3


def test_an_inbox_overflows_beyond_its_bounds():
    box, _ = inbox()
    for _ in range(MAX_DATAGRAMS):
        box.add_datagram(b"", 500, awaiting_response=True)
    assert not box.overflows
    box.add_datagram(b"", 500, awaiting_response=True)
    assert box.overflows
    box, _ = inbox()
    box.add_datagram(bytes(MAX_BYTES), 500, awaiting_response=True)
    assert not box.overflows
    box.add_datagram(b"x", 500, awaiting_response=True)
    assert box.overflows


@pytest.mark.parametrize(("number", "total"), [(0, 3), (4, 3), (1, 0), (0, 0)])
def test_fragments_that_cannot_be_are_garbage(number, total):
    """RFC 7383, section 2.5: from 1 to the total."""
    one, responder = initiator(), Responder(fragment_size=60)
    (init,) = responder.answer(one.begin(0).send[0].data)
    fragments = responder.answer(one.receive(init, MS, 500).send[0].data)
    wrong = fragments[0][:32] + struct.pack(">HH", number, total) + fragments[0][36:]
    for data in (wrong, *fragments):
        step = one.receive(data, 2 * MS, 500)
    assert step.finished.established
    assert step.finished.ignored == IgnoredDatagrams(garbage=1)


def test_later_fragments_of_another_size_are_left_out_once_they_are_there():
    """A repeated fragment counts once; one with another total restarts the reassembly (RFC 7383, section 2.6.1)."""
    one, responder = initiator(), Responder(fragment_size=60)
    (init,) = responder.answer(one.begin(0).send[0].data)
    request = one.receive(init, MS, 500).send[0]
    fragments = responder.answer(request.data)
    assert len(fragments) > 2
    assert one.receive(fragments[0], 2 * MS, 500).finished is None
    assert one.receive(fragments[0], 2 * MS, 500).finished is None
    responder.fragment_size = 40
    keys = responder.epochs[-1]
    chain = b"".join(keys.open(data, 36, theirs=False) for data in fragments)
    smaller = responder.encrypt_message(35, 1, 36, chain)
    assert len(smaller) > len(fragments)
    for data in [smaller[-1], fragments[1], *smaller[:-1]]:
        step = one.receive(data, 3 * MS, 500)
    assert step.finished.established
    assert step.finished.ignored.repeated == 2
