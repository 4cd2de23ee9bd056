import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.ikev2.auth_methods import SignatureAlgorithm
from ikeanalyze.wire.ikev2.notify_data import (
    Aggfrag,
    AuthAnnouncement,
    BackoffTimer,
    DeviceIdentity,
    Ipcomp,
    MessageIdSync,
    NoNatsAllowed,
    PpkIdentity,
    PuzzleChallenge,
    ResumptionTicket,
    check_notify_data,
    decode_notify_data,
    describe_notify,
    get_notify_name,
)
from ikeanalyze.wire.ikev2.payloads import Notify
from ikeanalyze.wire.ikev2.proposals import TransformAttributeValue
from tests.craft import ike
from tests.wire.dissected import clear, dissected

V4, OTHER_V4 = b"\xc0\x00\x02\x01", b"\xc6\x33\x64\x02"
V6 = b"\x20\x01\x0d\xb8" + bytes(11) + b"\x01"
ED25519 = bytes.fromhex("300506032b6570")


@pytest.mark.parametrize(
    ("kind", "data", "value", "text"),
    [
        (1, b"\x2b", 43, "UNSUPPORTED_CRITICAL_PAYLOAD V"),
        (1, b"\xc9", 201, "UNSUPPORTED_CRITICAL_PAYLOAD 201"),
        (9, b"\0\0\0\x07", 7, "INVALID_MESSAGE_ID 7"),
        (11, b"\1\2\3\4", b"\1\2\3\4", "INVALID_SPI"),
        (17, b"\0\x24", 36, "INVALID_KE_PAYLOAD ML-KEM-768"),
        (16385, b"\0\0\0\x05", 5, "SET_WINDOW_SIZE 5"),
        (16387, b"\x12\x34\x02", Ipcomp(0x1234, 2), "IPCOMP_SUPPORTED IPCOMP_DEFLATE"),
        (16388, bytes(20), bytes(20), "NAT_DETECTION_SOURCE_IP"),
        (16390, b"c" * 64, b"c" * 64, "COOKIE"),
        (16397, V4, "192.0.2.1", "ADDITIONAL_IP4_ADDRESS 192.0.2.1"),
        (16398, V6, "2001:db8::1", "ADDITIONAL_IP6_ADDRESS 2001:db8::1"),
        (16401, b"cookie 2", b"cookie 2", "COOKIE2"),
        (16402, V4 + OTHER_V4 + b"\x11\x94\x11\x95", NoNatsAllowed("192.0.2.1", "198.51.100.2", 4500, 4501),
         "NO_NATS_ALLOWED 192.0.2.1[4500] 198.51.100.2[4501]"),
        (16402, V6 + V6 + b"\x01\xf4\x01\xf4", NoNatsAllowed("2001:db8::1", "2001:db8::1", 500, 500),
         "NO_NATS_ALLOWED 2001:db8::1[500] 2001:db8::1[500]"),
        (16403, b"\0\0\x0e\x10", 3600, "AUTH_LIFETIME 3600 s"),
        (16409, b"\0\0\0\x3cticket", ResumptionTicket(60, b"ticket"), "TICKET_LT_OPAQUE 60 s"),
        (16413, b"ticket", b"ticket", "TICKET_OPAQUE"),
        (
            16416,
            b"\x80\x01\0\x0f\x80\x02\0\x01",
            (TransformAttributeValue(1, 15), TransformAttributeValue(2, 1)),
            "ROHC_SUPPORTED MAX_CID+ROHC_PROFILE",
        ),
        (16419, bytes(16), bytes(16), "QUICK_CRASH_DETECTION"),
        (16422, b"nonc\0\0\0\x05\0\0\0\x06", MessageIdSync(b"nonc", 5, 6), "IKEV2_MESSAGE_ID_SYNC 5 6"),
        (16423, b"\0\0\0\x09", 9, "IPSEC_REPLAY_COUNTER_SYNC 9"),
        (16423, bytes(7) + b"\x0a", 10, "IPSEC_REPLAY_COUNTER_SYNC 10"),
        (16424, b"\0\x01\0\x03", (1, 3), "SECURE_PASSWORD_METHODS PACE+Secure PSK Authentication"),
        (16431, b"\0\x02\0\x05\0\x63", (2, 5, 99), "SIGNATURE_HASH_ALGORITHMS SHA2-256+Identity+99"),
        (16434, b"\0\x05\x08cookie", PuzzleChallenge(5, 8, b"cookie"), "PUZZLE HMAC-SHA2-256 8"),
        (16436, b"\x02ppk\x1b1", PpkIdentity(2, b"ppk\x1b1", None), "PPK_IDENTITY ppk\\x1b1"),
        (16436, b"\x01\xab\xcd", PpkIdentity(1, b"\xab\xcd", None), "PPK_IDENTITY abcd"),
        # RFC 8784, section 3: the responder sends it without data to say that it uses the PPK
        (16436, b"", None, "PPK_IDENTITY"),
        (16437, b"auth", b"auth", "NO_PPK_AUTH"),
        (16441, b"link", b"link", "ADDITIONAL_KEY_EXCHANGE"),
        (16442, b"\x03", Aggfrag(True, True), "USE_AGGFRAG congestion control, no fragments"),
        (16442, b"\0", Aggfrag(False, False), "USE_AGGFRAG"),
        (16443, b"\x02\x02\x03\x01\x01" + bytes([3 + len(ED25519)]) + b"\x0e\x02" + ED25519,
         (AuthAnnouncement(2, None, None), AuthAnnouncement(1, 1, None),
          AuthAnnouncement(14, 2, SignatureAlgorithm("1.3.101.112", "Ed25519", None))),
         "SUPPORTED_AUTH_METHODS PSK+RSA+Ed25519"),
        (16444, b"queue", b"queue", "SA_RESOURCE_INFO"),
        (16446, b"\x02ppk1confirm!", PpkIdentity(2, b"ppk1", b"confirm!"), "PPK_IDENTITY_KEY ppk1"),
        # 3GPP TS 24.008, table 10.5.163a: unit 4 is half a minute, unit 7 deactivates
        (41041, b"\x01\x82", BackoffTimer(60), "BACKOFF_TIMER 60 s"),
        (41041, b"\x01\xe0", BackoffTimer(None), "BACKOFF_TIMER deactivated"),
        # an IMEI of 15 digits: the last byte's higher half is filled up
        (41101, b"\0\x09\x01\x94\x20\x03\x00\x11\x22\x33\xf4", DeviceIdentity(1, "490230001122334"), "DEVICE_IDENTITY 490230001122334"),
        (41101, b"\0\x01\x01", DeviceIdentity(1, ""), "DEVICE_IDENTITY"),
        (14, b"", None, "NO_PROPOSAL_CHOSEN"),
        (16430, b"x", None, "IKEV2_FRAGMENTATION_SUPPORTED"),
        (50000, b"x", None, "50000"),
    ],
)  # fmt: skip
def test_notify_data_is_decoded_and_described(kind, data, value, text):
    assert decode_notify_data(kind, data) == value
    assert describe_notify(Notify(kind, data, 0, b"")) == text
    assert check_notify_data(kind, data) is None


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (1, b""), (1, b"\1\2"), (9, b"\0\0\0"), (17, b"\0"), (16385, b""), (16387, b"\0\0"), (16388, bytes(19)),
        (16390, b""), (16390, bytes(65)), (16397, V6), (16398, V4), (16401, bytes(7)), (16402, bytes(13)),
        (16403, bytes(3)), (16407, b"\x01"), (16409, b"\0\0\0"), (16416, b"\0\x01\0\x05a"), (16419, bytes(15)),
        (16422, bytes(11)), (16423, bytes(5)), (16434, b"\0\5"), (16442, b""), (16443, b"\x01\x02"),
        (16443, b"\x03\x02"), (16443, b"\x05\x0e\x01ab"), (16446, b"\x02confir"), (41041, b""), (41041, b"\x02\0"),
        (41101, b"\0\x02\1"),
    ],
)  # fmt: skip
def test_data_that_do_not_fit(kind, data):
    assert decode_notify_data(kind, data) is None
    assert check_notify_data(kind, data) is not None
    assert describe_notify(Notify(kind, data, 0, b"")) == get_notify_name(kind)


@pytest.mark.tshark
def test_notify_data_is_decoded_as_by_tshark():
    notifies = [
        (17, b"\0\x13", "accepted_dh_group"),
        (16387, b"\x12\x34\x03", "ipcomp.cpi"),
        (16403, struct.pack(">I", 86400), "auth_lifetime"),
        (16407, b"\x01\x04" + V4, "redirect.new_resp_gw_ident.ipv4"),
        (16409, struct.pack(">I", 777) + b"ticket", "ticket_opaque.lifetime"),
        (16416, b"\x80\x01\0\x0f", "rohc.attr.max_cid"),
        (16422, b"nonc" + struct.pack(">II", 5, 6), "ha.expected_send_req_message_id"),
        (16422, b"nonc" + struct.pack(">II", 5, 6), "ha.expected_recv_req_message_id"),
        (16424, b"\0\x02", "secure_password_methods"),
        (16431, b"\0\x02\0\x04", "signature_hash_algorithms"),
    ]
    fields = list(dict.fromkeys(f"isakmp.notify.data.{name}" for _, _, name in notifies))
    rows = dissected([clear([ike.notify(kind, data)]) for kind, data, _ in notifies], *fields)
    reported = [row[f"isakmp.notify.data.{name}"] for row, (_, _, name) in zip(rows, notifies, strict=True)]
    read = [decode_notify_data(kind, data) for kind, data, _ in notifies]
    assert reported == [
        [str(read[0])], [str(read[1].cpi)], [str(read[2])], [read[3].gateway], [str(read[4].lifetime)],
        [str(read[5][0].value)], [f"0x{read[6].send:08x}"], [f"0x{read[7].receive:08x}"], [f"{read[8][0]:04x}"],
        [str(number) for number in read[9]],
    ]  # fmt: skip


@given(
    st.integers(0, 65535) | st.integers(16384, 16450) | st.sampled_from([41041, 41101]),
    st.binary(max_size=60),
)
def test_any_bytes(kind, data):
    assert describe_notify(Notify(kind, data, 0, b"")).isprintable()
    if decode_notify_data(kind, data) is not None:
        assert check_notify_data(kind, data) is None
