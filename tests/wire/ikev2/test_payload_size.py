import pytest

from ikeanalyze.wire.ikev2.payload_size import PayloadSize, measure_payload
from ikeanalyze.wire.payload_chain import Payload
from ikeanalyze.wire.registries.ikev2 import PayloadType


@pytest.mark.parametrize(
    ("type_", "body", "header", "data"),
    [
        # RFC 7296, sections 3.4, 3.8, 3.6 and 3.9: the generic header has 4 bytes
        (PayloadType.KE, bytes([0, 19, 0, 0]) + bytes(64), 8, 64),
        (PayloadType.AUTH, bytes([2, 0, 0, 0]) + bytes(32), 8, 32),
        (PayloadType.CERT, bytes([12]) + bytes(100), 5, 100),
        (PayloadType.NONCE, bytes(32), 4, 32),
    ],
)
def test_data_do_not_include_fixed_fields(type_, body, header, data):
    size = measure_payload(Payload(type_, False, body, 0))
    assert (size.header_bytes, size.data_bytes, size.bytes) == (header, data, 4 + len(body))
    made = PayloadSize.make(size.name, data)
    assert (made.header_bytes, made.bytes) == (size.header_bytes, size.bytes)


def test_the_method_of_auth_is_kept():
    assert measure_payload(Payload(PayloadType.AUTH, False, bytes([14, 0, 0, 0, 1]), 0)).method == 14


def test_truncated_payloads_have_no_data():
    assert measure_payload(Payload(PayloadType.AUTH, False, b"", 0)) == PayloadSize("AUTH", 4, 0)
    assert measure_payload(Payload(PayloadType.CERT, False, b"", 0)).other_bytes is None
