import struct
from random import Random

import pytest

from ikeanalyze.wire.ikev1 import message as ours
from ikeanalyze.wire.ikev1.describe import describe_ikev1_payload, describe_ikev1_payloads
from ikeanalyze.wire.payload_chain import Payload
from tests.craft import ikev1
from tests.wire.dissected import dissected
from tests.wire.recorded import ike_messages

#: Short names by tshark's numbers of payload types (RFC 2408, section 3.1; RFC 3947).
NAMES = {1: "SA", 4: "KE", 5: "ID", 7: "CR", 8: "HASH", 10: "No", 13: "V", 20: "NAT-D"}


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        (ikev1.ID, b"\x04\0\0\0\x0a\0\0\0\xff\xff\xff\0", "ID(10.0.0.0/24)"),
        (ikev1.ID, b"\x02\0\0\0gateway.example", "ID(gateway.example)"),
        (ikev1.ID, b"\x01\0\0\0ab", "ID(?)"),
        (ikev1.ID, b"\x01", "ID(?)"),
        (ikev1.NOTIFY, b"\0\0\0\1\1\0\x60\x02", "N(INITIAL-CONTACT)"),
        (ikev1.NOTIFY, b"\0\0\0\1\1\0\x8d\x28seqn", "N(R-U-THERE)"),
        (ikev1.DELETE, b"\0\0\0\1\3\4\0\x011234", "D(ESP 1 SPI)"),
        (ikev1.DELETE, b"\0\0\0\1\1\x10\0\1" + bytes(16), "D(ISAKMP 1 SPI)"),
        (ikev1.VENDOR_ID, bytes.fromhex("09002689dfd6b712"), "V(XAuth)"),
        (ikev1.SIGNATURE, bytes(256), "SIG"),
        (ikev1.CERT, b"\x04junk", "CERT(X.509, ?)"),
        (ikev1.FRAGMENT, b"\0\1\5\1", "FRAG(5, last)"),
        (ikev1.FRAGMENT, b"\0\1\4\0", "FRAG(4)"),
        (21, b"\1\0\0\0\x0a\0\0\1", "NAT-OA(10.0.0.1)"),
        (14, b"\1\0\0\7" + struct.pack(">HHHH", 16521, 0, 16522, 0), "ATTR(REQUEST: XAUTH_USER_NAME XAUTH_USER_PASSWORD)"),
        (14, b"\2\0\0\7" + struct.pack(">HH3sHH4s", 16521, 3, b"bob", 16522, 4, b"pass"),
         "ATTR(REPLY: XAUTH_USER_NAME=bob XAUTH_USER_PASSWORD)"),
        (200, b"", "unknown 200"),
    ],
)  # fmt: skip
def test_each_payload_has_a_description(kind, data, text):
    assert describe_ikev1_payload(Payload(kind, False, data, 28)) == text


def test_recorded_main_mode():
    # as the daemon lists such messages: SA V V V V, SA V V V, KE No NAT-D NAT-D; nothing of encrypted ones
    listed = [
        [text.partition("(")[0] for text in describe_ikev1_payloads(ours.parse_ikev1_payloads(message))]
        for message in ike_messages("ikev1-xauth")[:5]
    ]
    keys = ["KE", "No", "NAT-D", "NAT-D"]
    assert listed == [["SA", "V", "V", "V", "V"], ["SA", "V", "V", "V"], keys, keys, []]


@pytest.mark.tshark
def test_described_payloads_are_those_of_tshark():
    messages = [*ikev1.main_mode(Random(1))[:4], *ikev1.aggressive_mode(Random(2))[:2]]
    rows = dissected(messages, "isakmp.typepayload")
    reported = [[NAMES[int(kind)] for kind in row["isakmp.typepayload"] if int(kind) in NAMES] for row in rows]
    described = [describe_ikev1_payloads(ours.parse_ikev1_payloads(message)) for message in messages]
    # tshark lists the proposal and the transform inside of the SA too, which have numbers of their own
    assert [[text.partition("(")[0] for text in texts] for texts in described] == reported


def test_what_a_peer_chose_is_harmless_and_short():
    hostile = ikev1.message(
        bytes(8),
        bytes(8),
        2,
        [(ikev1.ID, b"\x02\0\0\0" + b"\x1b[2J" * 9000), (ikev1.VENDOR_ID, b"A vendor " * 900)],
    )
    texts = describe_ikev1_payloads(ours.parse_ikev1_payloads(hostile))
    assert all(text.isprintable() and len(text) < 100 for text in texts)
    assert len(texts) == 2
