import pytest

from ikeanalyze.model.prediction.what_if.changes import (
    ChainChange,
    ChangeError,
    HandshakeChanges,
    PayloadChange,
    parse_chain,
    parse_kem,
    parse_payload_change,
    parse_signature,
)


def test_payloads_have_the_names_of_the_report_or_of_the_rfc():
    assert parse_payload_change("AUTH=3309") == PayloadChange("AUTH", 3309)
    assert parse_payload_change("nonce=64") == parse_payload_change("No=64") == PayloadChange("No", 64)
    assert parse_payload_change("responder:CERT=5390") == PayloadChange("CERT", 5390, "responder")


@pytest.mark.parametrize(
    ("parse", "text", "problem"),
    [
        (parse_payload_change, "AUTH", "is not a payload and its bytes"),
        (parse_payload_change, "AUTH=-1", "is not a payload and its bytes"),
        (parse_payload_change, "AUTH=70000", "is not a payload and its bytes"),
        (parse_payload_change, "SK=70", "unknown payload 'SK'"),
        (parse_payload_change, "server:AUTH=1", "the side is initiator or responder, not 'server'"),
        (parse_chain, "0", "not a number of certificates"),
        (parse_chain, "both:2", "the side is initiator or responder"),
        (parse_kem, "kyber", "unknown algorithm 'kyber'; known: ml-kem-512"),
        (parse_signature, "rsa", "unknown algorithm 'rsa'; known: ml-dsa-44"),
    ],
)
def test_invalid_text_is_refused(parse, text, problem):
    with pytest.raises(ChangeError, match=problem):
        parse(text)


def test_changes_are_described():
    changes = HandshakeChanges(
        parse_signature("ML-DSA-65"),
        parse_kem("hqc-1"),
        (ChainChange(1, "responder"),),
        (PayloadChange("AUTH", 3309),),
        (PayloadChange("CERT", 5390, "initiator"),),
        (parse_kem("ml-kem-768"),),
    )
    assert changes.describe() == (
        "signatures ML-DSA-65",
        "key exchange HQC-1",
        "responder: 1 certificate",
        "with AUTH of 3,309 bytes",
        "initiator: one more CERT of 5,390 bytes",
        "additional key exchange ML-KEM-768",
    )
    assert changes
    assert not HandshakeChanges()
