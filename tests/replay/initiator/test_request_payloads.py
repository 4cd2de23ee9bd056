"""Requests against strongSwan's recorded requests of the same shape: the same payloads, in order, of equal sizes."""

import pytest

from ikeanalyze.replay.credentials import Credentials, parse_identity
from ikeanalyze.replay.handshake_shape import read_shape
from ikeanalyze.replay.initiator.request_payloads import build_auth_payloads, build_init_payloads
from ikeanalyze.wire.ikev2.encode import encode_chain
from ikeanalyze.wire.ikev2.message import parse_payloads
from ikeanalyze.wire.ikev2.payloads import Authentication
from tests.analysis.verify_recordings import taken_apart
from tests.paths import CAPTURES
from tests.wire.recorded import ike_messages

NAME = "pq-mlkem768-psk"


def recorded_shape():
    return read_shape(CAPTURES / f"{NAME}.pcap", keys=[CAPTURES / f"{NAME}.charon.log.gz"])[1]


def test_ike_sa_init():
    shape = recorded_shape()
    recorded = ike_messages(NAME)[0]
    theirs = [(payload.type, len(payload.body)) for payload in parse_payloads(recorded).payloads]
    made = build_init_payloads(
        shape.proposals,
        (20, bytes(96)),
        bytes(shape.nonce_bytes),
        (bytes(20), bytes(20)),
        shape.notifies,
        None,
    )
    assert [(kind, len(body)) for kind, body in made] == theirs
    assert made[0][1] == parse_payloads(recorded).payloads[0].body
    again = build_init_payloads(shape.proposals, (20, b""), b"", (b"", b""), (), b"cookie")
    assert again[0] == (41, bytes.fromhex("00004006") + b"cookie")


@pytest.mark.parametrize("asked", [False, True])
def test_recorded_payloads_of_ike_auth_are_sent_but_initial_contact(asked):
    """All that was recorded, but INITIAL_CONTACT, which would end other IKE SAs of the target."""
    shape = recorded_shape()
    (sa,) = taken_apart(NAME)[0]
    first = next(
        message.content
        for message in sa.messages
        if message.content.exchange_type == 35 and not message.content.response
    )
    theirs = [(payload.type, len(payload.body)) for payload in first.payloads]
    contact = next(payload for payload in first.payloads if payload.type == 41 and payload.body[2:4] == b"\x40\0")
    theirs.remove((contact.type, len(contact.body)))
    credentials = Credentials(remote_identity=parse_identity("res") if asked else None)
    made = build_auth_payloads(shape, credentials, shape.identity_i, Authentication(2, bytes(48)), b"SPI!")
    assert [(kind, len(body)) for kind, body in made] == theirs
    security = next(body for kind, body in made if kind == 33)
    assert b"SPI!" in security
    _, chain = encode_chain(made)
    assert len(chain) == len(first.plaintext) - len(contact.body) - 4


def test_eap_comes_before_auth():
    shape = recorded_shape()
    made = build_auth_payloads(shape, Credentials(), shape.identity_i, None, b"SPI!")
    assert [kind for kind, _ in made][:3] == [35, 36, 33]
