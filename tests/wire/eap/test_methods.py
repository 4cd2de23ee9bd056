import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.eap.methods import (
    EapIdentity,
    EapMd5Challenge,
    EapMsChapV2,
    EapNak,
    EapNotification,
    EapTlsPacket,
    EapToken,
    UnparsedEapMethod,
    describe_eap,
    parse_eap_message,
)
from tests.craft import eap, ike
from tests.wire.dissected import clear, dissected
from tests.wire.opened import opened

PASSWORD = b"correct horse battery staple"


def mschap(operation, data):
    return struct.pack(">BBH", operation, 1, 4 + len(data)) + data


@pytest.mark.parametrize(
    ("data", "content", "text"),
    [
        (eap.eap(1, 0, 1), EapIdentity(None), "Request Identity"),
        (eap.eap(2, 0, 1, b"alice@x"), EapIdentity("alice@x"), "Response Identity alice@x"),
        (eap.eap(2, 0, 1, b"\x1b[2J"), EapIdentity("\\x1b[2J"), "Response Identity \\x1b[2J"),
        (eap.eap(1, 0, 2, b"expires"), EapNotification("expires"), "Request Notification expires"),
        (eap.eap(2, 0, 3, b"\x0d\x15"), EapNak(("EAP-TLS", "EAP-TTLS")), "Response Nak for EAP-TLS, EAP-TTLS"),
        (eap.eap(2, 0, 3, b"\0"), EapNak(()), "Response Nak for none"),
        (eap.eap(2, 0, 254, b"\0\0\0\0\0\0\x03\xfe\0\0\0\0\0\0\x0d\xfe\0\0\x09\0\0\0\x02"),
         EapNak(("EAP-TLS", "EAP-expanded-9-2")), "Response Nak for EAP-TLS, EAP-expanded-9-2"),
        (eap.eap(1, 0, 4, b"\x10" + bytes(16) + b"server"), EapMd5Challenge(16, "server"), "Request MD5-Challenge"),
        (eap.eap(2, 0, 4, b"\x10" + bytes(16)), EapMd5Challenge(16, None), "Response MD5-Challenge"),
        (eap.eap(1, 0, 6, b"Password: "), EapToken("Password: ", 10), "Request GTC"),
        (eap.eap(2, 0, 6, PASSWORD), EapToken(None, 28), "Response GTC"),
        (eap.eap(1, 0, 26, mschap(1, b"\x10" + bytes(16) + b"srv")), EapMsChapV2(1, "srv", None, None), "Request MSCHAPv2 Challenge"),
        (eap.eap(2, 0, 26, mschap(2, b"\x31" + bytes(49) + b"bob")), EapMsChapV2(2, "bob", None, None), "Response MSCHAPv2 Response"),
        (eap.eap(1, 0, 26, mschap(3, b"S=" + b"A" * 40 + b" M=Hello")), EapMsChapV2(3, None, None, "Hello"), "Request MSCHAPv2 Success"),
        (eap.eap(2, 0, 26, b"\x03"), EapMsChapV2(3, None, None, None), "Response MSCHAPv2 Success"),
        (eap.eap(1, 0, 26, mschap(4, b"E=691 R=1 C=" + b"0" * 32 + b" V=3 M=No")), EapMsChapV2(4, None, 691, "No"),
         "Request MSCHAPv2 Failure 691"),
        (eap.eap(1, 0, 13, b"\x20"), EapTlsPacket(True, False, None, 0, None), "Request TLS start"),
        (eap.eap(2, 0, 13, b"\xc0\0\0\x10\0" + bytes(100)), EapTlsPacket(False, True, 4096, 100, None), "Response TLS 100+ bytes"),
        (eap.eap(1, 0, 13, b"\0"), EapTlsPacket(False, False, None, 0, None), "Request TLS acknowledgement"),
        (eap.eap(1, 0, 25, b"\x21"), EapTlsPacket(True, False, None, 0, 1), "Request PEAP start"),
        (eap.eap(2, 0, 21, b"\0" + bytes(7)), EapTlsPacket(False, False, None, 7, 0), "Response TTLS 7 bytes"),
        (eap.eap(2, 0, 55, b"\x11\0\0\0\x03" + bytes(10)), EapTlsPacket(False, False, None, 7, 1), "Response TEAP 7 bytes"),
        (eap.eap(1, 0, 52, bytes(9)), UnparsedEapMethod(9), "Request pwd"),
        (eap.eap(1, 0, 254, b"\x00\x2a\xcf\x00\x00\x00\x07ab"), UnparsedEapMethod(2), "Request expanded 10959-7"),
        (eap.eap(3, 0), None, "Success"),
        (eap.eap(4, 0), None, "Failure"),
    ],
)  # fmt: skip
def test_method_contents_are_decoded_and_described(data, content, text):
    message = parse_eap_message(data)
    assert (message.content, message.error, describe_eap(message)) == (content, None, text)


def test_aka_is_described():
    message = parse_eap_message(eap.eap(1, 0, 50, b"\x01\0\0\x18\x01\0\x01"))
    assert describe_eap(message) == "Request AKA' Challenge (AT_KDF 1)"


@pytest.mark.parametrize(
    "data",
    [
        eap.eap(2, 0, 6, PASSWORD),
        eap.eap(2, 0, 5, PASSWORD),
        eap.eap(2, 0, 4, bytes([28]) + PASSWORD),
        eap.eap(2, 0, 26, mschap(2, bytes([28]) + PASSWORD)),
        eap.eap(2, 0, 26, mschap(7, PASSWORD)),
        eap.eap(2, 0, 17, PASSWORD),
        eap.eap(1, 0, 26, mschap(3, b"S=" + PASSWORD)),
    ],
)
def test_what_proves_an_identity_is_not_kept(data):
    message = parse_eap_message(data)
    assert message.error is None
    for part in (b"horse", b"horse".hex().encode()):
        assert part.decode() not in repr(message) + describe_eap(message)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (eap.eap(2, 0, 1, b"alice")[:-1], "the EAP header announces 10 bytes, the packet has 9"),
        (eap.eap(2, 0, 1, b"alice") + b"xx", "2 bytes follow the EAP packet"),
        (b"\x01\x00\x00\x02", "the EAP packet has a length of 2, less than its 4-byte header"),
        (eap.eap(1, 0), "no type: 1 bytes are needed, 0 are left (at byte 4)"),
        (eap.eap(1, 0, 4, b"\x10abc"), "MD5-Challenge: 16 bytes are needed, 3 are left (at byte 6)"),
        (eap.eap(1, 0, 13, b"\x80\0"), "TLS: 4 bytes are needed, 1 are left (at byte 6)"),
        (eap.eap(9, 0), "unknown EAP code 9"),
    ],
)
def test_malformed_methods_have_an_error(data, error):
    assert parse_eap_message(data).error == error


def test_no_message_without_a_header():
    assert parse_eap_message(b"\x01\x00\x00") is None


def test_the_recorded_conversation_is_that_of_the_log():
    # the daemon's log: EAP/REQ/ID, EAP/RES/ID, EAP/REQ/MD5, EAP/RES/MD5, EAP/SUCC
    bodies = []
    for message in opened("eap-md5-radius"):
        if message.first == ike.EAP:
            bodies.append(message.inside[4:])
    texts = [describe_eap(parse_eap_message(body)) for body in bodies]
    assert texts == ["Response Identity carol", "Request MD5-Challenge", "Response MD5-Challenge", "Success"]


@pytest.mark.tshark
def test_methods_are_decoded_as_by_tshark():
    packets = [
        eap.eap(2, 7, 1, b"alice"),
        eap.eap(1, 8, 4, b"\x10" + bytes(16) + b"srv"),
        eap.eap(2, 9, 3, b"\x0d"),
        eap.eap(1, 10, 26, mschap(4, b"E=691 R=0 C=00 V=3 M=No")),
    ]
    fields = ("eap.id", "eap.identity", "eap.md5.value_size", "eap.desired_type", "eap.ms_chap_v2.opcode")
    rows = dissected([clear([(ike.EAP, packet)]) for packet in packets], *fields)
    read = [parse_eap_message(packet) for packet in packets]
    assert [[str(message.packet.identifier)] for message in read] == [row["eap.id"] for row in rows]
    assert rows[0]["eap.identity"] == [read[0].content.text]
    assert rows[1]["eap.md5.value_size"] == [str(read[1].content.value_bytes)]
    assert rows[2]["eap.desired_type"] == ["13"]
    assert read[2].content.methods == ("EAP-TLS",)
    assert rows[3]["eap.ms_chap_v2.opcode"] == [str(read[3].content.operation)]


@given(
    st.sampled_from([1, 2, 3, 9]),
    st.sampled_from([1, 2, 3, 4, 6, 13, 18, 21, 23, 26, 50, 55, 254]),
    st.binary(max_size=60),
)
def test_random_bytes_give_printable_text(code, kind, data):
    message = parse_eap_message(eap.eap(code, 0, kind, data))
    assert describe_eap(message).isprintable()
