"""Payloads of the initiator's requests, in strongSwan's order."""

import hashlib
from collections.abc import Sequence

from msgspec.structs import replace

from ikeanalyze.replay.credentials import Credentials, certificate_to_der, public_key_to_der
from ikeanalyze.replay.handshake_shape import HandshakeShape
from ikeanalyze.wire.ikev2.encode import (
    Payload,
    encode_authentication,
    encode_certificate,
    encode_certificate_request,
    encode_identification,
    encode_key_exchange,
    encode_notify,
    encode_sa,
    encode_traffic_selectors,
)
from ikeanalyze.wire.ikev2.payloads import Authentication, Identification
from ikeanalyze.wire.ikev2.proposals import Proposal
from ikeanalyze.wire.registries.ikev2 import AuthMethod, PayloadType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType


def build_init_payloads(
    proposals: Sequence[Proposal],
    key_exchange: tuple[int, bytes],
    nonce: bytes,
    nat_detection: tuple[bytes, bytes],
    notifies: Sequence[tuple[int, bytes]],
    cookie: bytes | None,
) -> list[Payload]:
    """Build the payloads of an IKE_SA_INIT request (RFC 7296, sections 1.2, 2.6 and 2.23).

    `key_exchange`: method and data. `nat_detection`: hashes of source and destination.
    """
    source, destination = nat_detection
    cookies = [] if cookie is None else [encode_notify(NotifyType.COOKIE, cookie)]
    return [
        *cookies,
        encode_sa(proposals),
        encode_key_exchange(*key_exchange),
        (PayloadType.NONCE, nonce),
        encode_notify(NotifyType.NAT_DETECTION_SOURCE_IP, source),
        encode_notify(NotifyType.NAT_DETECTION_DESTINATION_IP, destination),
        *(encode_notify(kind, data) for kind, data in notifies),
    ]


def build_auth_payloads(
    shape: HandshakeShape,
    credentials: Credentials,
    identity: Identification,
    authentication: Authentication | None,
    spi: bytes,
) -> list[Payload]:
    """Build the payloads of the first IKE_AUTH request (RFC 7296, sections 1.2 and 2.16).

    `authentication`: None for EAP. `spi`: the SPI of the Child SA, 4 bytes.
    """
    payloads = [encode_identification(PayloadType.IDI, identity.type, identity.data)]
    if authentication is not None and authentication.method != AuthMethod.SHARED_KEY:
        payloads += [encode_certificate(certificate_to_der(certificate)) for certificate in credentials.certificates]
    if shape.asks_certificates or credentials.authorities:
        digests = [
            hashlib.sha1(public_key_to_der(certificate), usedforsecurity=False).digest()
            for certificate in credentials.authorities
        ]
        payloads.append(encode_certificate_request(digests))
    responder_identity = credentials.remote_identity or shape.identity_r
    if responder_identity is not None:
        payloads.append(encode_identification(PayloadType.IDR, responder_identity.type, responder_identity.data))
    if authentication is not None:
        payloads.append(encode_authentication(authentication.method, authentication.data))
    if shape.configuration is not None:
        payloads.append((PayloadType.CP, shape.configuration))
    if shape.esp_proposals:
        payloads += [
            encode_sa([replace(proposal, spi=spi) for proposal in shape.esp_proposals]),
            encode_traffic_selectors(PayloadType.TSI, shape.selectors_i),
            encode_traffic_selectors(PayloadType.TSR, shape.selectors_r),
        ]
    return payloads + [encode_notify(kind, data) for kind, data in shape.auth_notifies]
