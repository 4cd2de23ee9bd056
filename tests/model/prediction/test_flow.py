import pytest

from ikeanalyze.model.prediction.flow import EncryptionOverhead, get_encryption_overhead
from tests.model.flows import exchange, made, message


# IV, block and ICV by the RFCs that are named
@pytest.mark.parametrize(
    ("encryption", "integrity", "expected"),
    [
        ("AES-GCM-16-256", None, (8, 1, 16)),  # RFC 5282
        ("AES-GCM-8-128", None, (8, 1, 8)),
        ("AES-CCM-12-256", None, (8, 1, 12)),
        ("CAMELLIA-CCM-16-256", None, (8, 1, 16)),  # RFC 5529
        ("CHACHA20-POLY1305", None, (8, 1, 16)),  # RFC 7634
        ("AES-CBC-256", "HMAC-SHA2-512-256", (16, 16, 32)),  # RFC 3602, RFC 4868
        ("AES-CBC-128", "HMAC-SHA1-96", (16, 16, 12)),
        ("CAMELLIA-CBC-256", "HMAC-SHA2-384-192", (16, 16, 24)),
        ("3DES", "HMAC-MD5-96", (8, 8, 12)),  # RFC 2451
        ("AES-CTR-256", "AES-XCBC-96", (8, 1, 12)),  # RFC 5930
        ("NULL", "HMAC-SHA2-256-128", (0, 1, 16)),  # RFC 2410
    ],
)
def test_algorithms_determine_iv_block_and_icv_sizes(encryption, integrity, expected):
    assert get_encryption_overhead(encryption, integrity) == EncryptionOverhead(*expected)


@pytest.mark.parametrize(
    ("encryption", "integrity"), [(None, None), ("KUZNYECHIK-MGM-KTREE", None), ("AES-CBC-256", None), ("99", None)]
)  # fmt: skip
def test_what_is_not_known(encryption, integrity):
    assert get_encryption_overhead(encryption, integrity) is None


def test_a_flow_adds_up_bytes_messages_and_computation():
    one = made(
        exchange(message(100, marker=0), message(200, marker=0), answer_ms=2, type_="IKE_SA_INIT"),
        exchange(message(300, 50), message(400), before_ms=5, answer_ms=3),
    )
    # 42 bytes of headers on port 500, 46 on port 4500
    assert one.bytes == 142 + 242 + 346 + 96 + 446
    assert one.messages == 4
    assert one.computation_ns("initiator") == 5_000_000
    assert one.computation_ns("responder") == 5_000_000
    assert one.unknown == []


def test_unknown_computation_is_not_nothing():
    from dataclasses import replace

    one = exchange(message(100), message(200))
    flow = made(replace(one, answer_ns=None), exchange(message(1), None))
    assert flow.computation_ns("responder") is None
    assert flow.computation_ns("initiator") == 0
    assert flow.unknown == ["responder in IKE_AUTH 1"]
    assert flow.messages == 3
