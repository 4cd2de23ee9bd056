"""Handshakes made by hand that output must be able to show.

1: ML-KEM-768 in IKE_INTERMEDIATE, its request in two fragments; the IKE SA is deleted afterwards. 2: EAP-MD5
with RADIUS. 3: INVALID_KE_PAYLOAD, then a lost response and two retransmissions. 4: nobody answers. 5: IKEv1,
failed.

Three more as they are with keys. 6: as 1, with a certificate, and the IKE SA rekeyed afterwards; the first CHILD_SA is
refused, an encapsulation key is wrong. 7: as 2. 8: the IKE SA that replaces that of 6, if that is the handshake before.
"""

from collections.abc import Sequence
from typing import Any

# time in ms, sender, kind, type, message ID, attempt, bytes of each frame, more
Sent = tuple[float, str, str, str, int, int, Sequence[int], dict[str, Any]]

PQ: list[Sent] = [
    (0.0, "initiator", "request", "IKE_SA_INIT", 0, 1, [354], {}),
    (2.345678, "responder", "response", "IKE_SA_INIT", 0, 1, [362], {}),
    (5.0, "initiator", "request", "IKE_INTERMEDIATE", 1, 1, [1294, 112], {"fragments": 2, "fragments_seen": 2}),
    (7.5, "responder", "response", "IKE_INTERMEDIATE", 1, 1, [1199], {}),
    (9.25, "initiator", "request", "IKE_AUTH", 2, 1, [313], {}),
    (12.75, "responder", "response", "IKE_AUTH", 2, 1, [274], {}),
    (4012.0, "initiator", "request", "INFORMATIONAL", 3, 1, [111], {"set_up": False}),
    (4012.9, "responder", "response", "INFORMATIONAL", 3, 1, [111], {"set_up": False}),
]
EAP: list[Sent] = [
    (0.0, "initiator", "request", "IKE_SA_INIT", 0, 1, [506], {}),
    (1.5, "responder", "response", "IKE_SA_INIT", 0, 1, [514], {}),
    (3.0, "initiator", "request", "IKE_AUTH", 1, 1, [270], {}),
    (4.0, "responder", "response", "IKE_AUTH", 1, 1, [174], {}),
    (5.0, "initiator", "request", "IKE_AUTH", 2, 1, [126], {}),
    (5.5, "responder", "request", "Access-Request", 17, 1, [187], {"protocol": "RADIUS"}),
    (6.5, "aaa", "response", "Access-Challenge", 17, 1, [122], {"protocol": "RADIUS"}),
    (7.0, "responder", "response", "IKE_AUTH", 2, 1, [142], {}),
    (8.0, "initiator", "request", "IKE_AUTH", 3, 1, [142], {}),
    (8.5, "responder", "request", "Access-Request", 18, 1, [215], {"protocol": "RADIUS"}),
    (9.5, "aaa", "response", "Access-Accept", 18, 1, [90], {"protocol": "RADIUS"}),
    (10.0, "responder", "response", "IKE_AUTH", 3, 1, [126], {}),
    (11.0, "initiator", "request", "IKE_AUTH", 4, 1, [158], {}),
    (13.0, "responder", "response", "IKE_AUTH", 4, 1, [270], {}),
]
LOSS: list[Sent] = [
    (0.0, "initiator", "request", "IKE_SA_INIT", 0, 1, [290], {}),
    (0.8, "responder", "response", "IKE_SA_INIT", 0, 1, [80], {}),
    (1.0, "initiator", "request", "IKE_SA_INIT", 0, 2, [354], {}),
    (3.0, "responder", "response", "IKE_SA_INIT", 0, 2, [354], {}),
    (4.0, "initiator", "request", "IKE_AUTH", 1, 1, [1294, 400], {"fragments": 2, "fragments_seen": 2}),
    (
        404.0,
        "initiator",
        "request",
        "IKE_AUTH",
        1,
        1,
        [1294, 400],
        {"fragments": 2, "fragments_seen": 2, "transmission": 2},
    ),
    (964.0, "initiator", "request", "IKE_AUTH", 1, 1, [1294], {"fragments": 2, "fragments_seen": 1, "transmission": 3}),
    (967.0, "responder", "response", "IKE_AUTH", 1, 1, [1294, 300], {"fragments": 2, "fragments_seen": 2}),
]
SILENT: list[Sent] = [
    (0.0, "initiator", "request", "IKE_SA_INIT", 0, 1, [354], {}),
    (400.0, "initiator", "request", "IKE_SA_INIT", 0, 1, [354], {"transmission": 2}),
]
_UNANSWERED = {
    "effect": "stopped",
    "confidence": "consistent with",
    "exchange": "IKE_SA_INIT",
    "message_id": 0,
    "sender": "initiator",
    "kind": "request",
    "frames": [1, 2],
}
SILENT_RESPONDER = _UNANSWERED | {
    "code": "responder-silent",
    "message": "No IKE response of 192.0.2.2 is in the capture: the IKE_SA_INIT request was sent 2 times in 0.4 s.",
    "remedy": "Check the address, and that firewalls pass UDP port 500 in both directions.",
    "rfc": "RFC 7296, 2.1",
}
BLOCKED_PORT = _UNANSWERED | {
    "code": "udp-4500-blocked",
    "message": "The handshake stops where it changes to UDP port 4500.",
    "remedy": "Let UDP port 4500 pass.",
    "rfc": "RFC 7296, 2.23",
}
OLD: list[Sent] = [
    (0.0, "initiator", "request", "Identity Protection", 0, 1, [214], {"protocol": "IKEv1"}),
    (1.0, "responder", "response", "Identity Protection", 0, 1, [146], {"protocol": "IKEv1"}),
    (2.0, "responder", "request", "Informational", 77, 1, [82], {"protocol": "IKEv1"}),
]


def _read(sent: Sequence[Sent], *told: dict[str, Any]) -> list[Sent]:
    """The messages with what is told of each."""
    return [(*value[:7], value[7] | more) for value, more in zip(sent, told, strict=True)]


def _opened(epoch: int, *payloads: str, **more: Any) -> dict[str, Any]:
    return {"decrypted": True, "epoch": epoch, "verified": True, "payloads": list(payloads), **more}


CLEAR = {"payloads": ["SA", "KE(ECP-384)", "No", "N(NAT_DETECTION_SOURCE_IP)", "N(NAT_DETECTION_DESTINATION_IP)"]}
CERTIFICATE = "CERT(X.509 CN=gw.example,O=Example, ECDSA P-384)"
PQ_READ = _read(
    PQ,
    CLEAR,
    CLEAR,
    _opened(0, "KE(ML-KEM-768)"),
    _opened(0, "KE(ML-KEM-768)"),
    _opened(1, "IDi(gw.example)", CERTIFICATE, "AUTH(ECDSA with SHA2-384)", "SA", "TSi(10.1.0.1/32)"),
    _opened(1, "IDr(10.2.0.2)", "AUTH(PSK)", "N(TS_UNACCEPTABLE)"),
    {"type": "CREATE_CHILD_SA"} | _opened(1, "SA", "No", "KE(ECP-384)"),
    {"type": "CREATE_CHILD_SA", "decrypted": False},
)
EAP_READ = _read(
    EAP,
    CLEAR,
    CLEAR,
    _opened(0, "IDi(carol)", "SA", "TSi(10.1.0.1/32)", "TSr(10.2.0.1/32)"),
    _opened(0, "IDr(res)", "AUTH(PSK)", "EAP(Request Identity)"),
    _opened(0, "EAP(Response Identity carol)", same_eap=5),
    {"same_eap": 4, "matched_by": "EAP"},
    {"same_eap": 7, "matched_by": "EAP"},
    _opened(0, "EAP(Request MD5-Challenge)", same_eap=6),
    _opened(0, "EAP(Response MD5-Challenge)", same_eap=9),
    {"same_eap": 8, "matched_by": "EAP"},
    {"same_eap": 11, "matched_by": "EAP"},
    _opened(0, "EAP(Success)", same_eap=10),
    _opened(0, "AUTH(PSK)"),
    _opened(0, "AUTH(PSK)", "SA", "TSi(10.1.0.1/32)", "TSr(10.2.0.1/32)", verified=False),
)
NEXT: list[Sent] = [
    (0.0, "responder", "request", "INFORMATIONAL", 0, 1, [111], {"set_up": False} | _opened(0, "D(ESP 1 SPI)")),
    (0.5, "initiator", "response", "INFORMATIONAL", 0, 1, [111], {"set_up": False} | _opened(0, "D(ESP 1 SPI)")),
]


def _key_exchange(exchange: int, purpose: str, slot: int, method: str, number: int, *data: Any) -> dict[str, Any]:
    request, request_bytes, response, response_bytes, *findings = data
    return {
        "exchange": exchange,
        "purpose": purpose,
        "slot": slot,
        "method": method,
        "id": number,
        "request": request,
        "request_bytes": request_bytes,
        "response": response,
        "response_bytes": response_bytes,
        "findings": findings,
    }


PUBLIC = ("public value", 96, "public value", 96)
BAD_KEY = "ML-KEM-768: the encapsulation key has a coefficient that is not below 3329"

HANDSHAKES: list[tuple[list[Sent], dict[str, Any]]] = [
    (
        PQ,
        {
            "outcome": "established",
            "nat": "none",
            "auth_initiator": "psk",
            "auth_responder": "psk",
            "auth_guessed": False,
            "encryption": "AES-GCM-16-256",
            "prf": "HMAC-SHA2-384",
            "key_exchange": "ECP-384",
            "additional_key_exchanges": [{"slot": 1, "method": "ML-KEM-768", "id": 36}],
            "offered": ["AES-GCM-16-256, HMAC-SHA2-384, ECP-384, ML-KEM-768 (slot 1)"],
            "initiator_supports": [
                "IKEV2_FRAGMENTATION_SUPPORTED",
                "INTERMEDIATE_EXCHANGE_SUPPORTED",
                "REDIRECT_SUPPORTED",
            ],
            "responder_supports": ["IKEV2_FRAGMENTATION_SUPPORTED", "INTERMEDIATE_EXCHANGE_SUPPORTED"],
            "setup_ns": 12_750_000,
            "network_ns": 1_500_000,
            "initiator_ns": 4_404_322,
            "responder_ns": 6_845_678,
            "vantage": "initiator",
            "path_rtt_ns": 500_000,
            "path_rtt_source": "smallest seen",
            "blowup": 1.0,
            "ike_messages_fragmented": 1,
            "ike_fragments": 2,
        },
    ),
    (
        EAP,
        {
            "outcome": "completed",
            "auth_initiator": "eap",
            "auth_eap": "EAP-MD5",
            "auth_guessed": True,
            "encryption": "AES-CBC-256",
            "prf": "HMAC-SHA2-256",
            "integrity": "HMAC-SHA2-256-128",
            "key_exchange": "ECP-256",
            "setup_ns": 13_000_000,
            "aaa_ns": 2_000_000,
            "vantage": "responder",
            "blowup": 1.0,
            "nas_address": "198.51.100.2",
            "aaa_address": "198.51.100.9",
        },
    ),
    (
        LOSS,
        {
            "outcome": "established",
            "auth_initiator": "ecdsa-256",
            "auth_responder": "ecdsa-256",
            "auth_guessed": False,
            "encryption": "AES-CBC-256",
            "prf": "HMAC-SHA2-256",
            "integrity": "HMAC-SHA2-256-128",
            "key_exchange": "ECP-384",
            "setup_ns": 967_000_000,
            "retransmission_wait_ns": 960_000_000,
            "vantage": "unknown",
            "blowup": 7354 / 4366,
            "retransmitted_messages": 2,
            "retransmitted_frames": 3,
            "retransmitted_bytes": 2988,
            "ike_messages_fragmented": 2,
            "ike_fragments": 7,
            "extra_round_trips": ["INVALID_KE_PAYLOAD"],
            "capture_duplicates": 1,
        },
    ),
    (
        SILENT,
        {
            "outcome": "unanswered",
            "spi_r": "0" * 16,
            "blowup": 2.0,
            "retransmitted_messages": 1,
            "retransmitted_frames": 1,
            "retransmitted_bytes": 354,
            "one_sided": "initiator",
            "vantage": "unknown",
            "diagnosis": [SILENT_RESPONDER, BLOCKED_PORT],
        },
    ),
    (
        OLD,
        {
            "protocol": "IKEv1",
            "outcome": "failed",
            "reason": "NO-PROPOSAL-CHOSEN",
            "initiator_address": "2001:db8:ffff:ffff:ffff:ffff:ffff:1",
            "responder_address": "2001:db8::2",
            "vantage": "unknown",
            "blowup": 1.0,
        },
    ),
]
HANDSHAKES += [
    (
        PQ_READ,
        HANDSHAKES[0][1]
        | {
            "auth_initiator": "ecdsa-384",
            "child_error": "TS_UNACCEPTABLE",
            "payload_bytes": [
                {"payload": "KE", "bytes": 2484},
                {"payload": "CERT", "bytes": 600},
                {"payload": "frame headers", "bytes": 824},
            ],
            "key_exchanges": [
                _key_exchange(0, "IKE SA", 0, "ECP-384", 20, *PUBLIC),
                _key_exchange(1, "IKE SA", 1, "ML-KEM-768", 36, "encapsulation key", 1184, "ciphertext", 1088, BAD_KEY),
                _key_exchange(3, "rekeying", 0, "ECP-384", 20, "public value", 96, None, None),
            ],
            "certificates": [
                {
                    "side": "initiator",
                    "name": "X.509 CN=gw.example,O=Example, ECDSA P-384",
                    "key": "ECDSA P-384",
                    "signature": "ECDSA with SHA2-384",
                    "bytes": 595,
                    "key_bytes": 97,
                    "signature_bytes": 103,
                    "other_bytes": 395,
                }
            ],
        },
    ),
    (
        EAP_READ,
        HANDSHAKES[1][1]
        | {
            "outcome": "established",
            "auth_responder": "psk",
            "auth_guessed": False,
            "payload_bytes": [{"payload": "KE", "bytes": 528}, {"payload": "frame headers", "bytes": 1900}],
            "key_exchanges": [_key_exchange(0, "IKE SA", 0, "ECP-256", 19, "public value", 64, "public value", 64)],
            "certificates": [],
        },
    ),
    (
        NEXT,
        {
            "outcome": "established",
            "rekeyed": True,
            "reason": "REKEYED",
            "replaces": 1,
            "payload_bytes": [],
            "key_exchanges": [],
            "certificates": [],
            "blowup": None,
        },
    ),
]
