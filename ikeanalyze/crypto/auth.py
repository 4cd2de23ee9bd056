"""Compute the inputs of AUTH payloads: signed octets, IntAuth, and the values of shared keys.

`signatures` makes and verifies the signatures over `signed_octets`.
"""

from struct import Struct
from typing import Final

from ikeanalyze.crypto.algorithms import PrfAlgorithm
from ikeanalyze.crypto.macs import prf
from ikeanalyze.crypto.sk_payload import DecryptedMessage, find_encrypted_payload
from ikeanalyze.wire.header import HEADER, NEXT_PAYLOAD_OFFSET
from ikeanalyze.wire.payload_chain import PAYLOAD_HEADER
from ikeanalyze.wire.registries.ikev2 import PayloadType

_KEY_PAD: Final = b"Key Pad for IKEv2"
_MESSAGE_ID: Final = Struct(">I")


def get_int_auth_octets(message: bytes, decrypted: DecryptedMessage) -> bytes:
    """Return IntAuth_*A | IntAuth_*P, the authenticated octets of an IKE_INTERMEDIATE message (RFC 9242, 3.3.2).

    `message`: the complete message as sent, or its first fragment (RFC 7383); the octets are those of the unfragmented
    message. `decrypted`: its content, reassembled from all fragments. Lengths do not include IV, padding and ICV.

    Raises:
        ValueError: the message has no encrypted payload, or is not the first fragment.
    """
    payload = find_encrypted_payload(message)
    if payload is None or (payload.fragment is not None and payload.fragment[0] != 1):
        raise ValueError("not a message with an encrypted payload, or not its first fragment")
    data = payload.message
    type_at, header_at = NEXT_PAYLOAD_OFFSET, HEADER.size
    payload_body = payload.start if payload.fragment is None else payload.start - 4
    while header_at + PAYLOAD_HEADER.size != payload_body:
        type_at = header_at
        header_at += PAYLOAD_HEADER.unpack_from(data, header_at)[2]
    fields = HEADER.unpack_from(data)
    _, critical, _ = PAYLOAD_HEADER.unpack_from(data, header_at)
    clear = bytearray(data[:header_at])
    size = PAYLOAD_HEADER.size + len(decrypted.plaintext)
    clear[: HEADER.size] = HEADER.pack(*fields[:-1], header_at + size)
    clear[type_at] = PayloadType.SK
    return bytes(clear) + PAYLOAD_HEADER.pack(decrypted.first, critical, size) + decrypted.plaintext


def int_auth(algorithm: PrfAlgorithm, sk_p: bytes, previous: bytes, octets: bytes) -> bytes:
    """Return IntAuth_iN or IntAuth_rN of an IKE_INTERMEDIATE exchange (RFC 9242, section 3.3.2).

    `sk_p`: SK_pi or SK_pr of the keys that protected the message. `previous`: the same side's value of the
    exchange before; empty for the first. `octets`: `get_int_auth_octets` of that side's message.
    """
    return prf(algorithm, sk_p, previous + octets)


def combined_int_auth(int_auth_i: bytes, int_auth_r: bytes, message_id: int) -> bytes:
    """Return IntAuth, the end of the signed octets of both sides. `message_id`: that of the first IKE_AUTH request."""
    return int_auth_i + int_auth_r + _MESSAGE_ID.pack(message_id)


def signed_octets(
    algorithm: PrfAlgorithm,
    first_message: bytes,
    nonce: bytes,
    sk_p: bytes,
    identification: bytes,
    combined: bytes = b"",
) -> bytes:
    """Return InitiatorSignedOctets or ResponderSignedOctets (RFC 7296, section 2.15; RFC 9242, section 3.3.2).

    `first_message`: the side's last IKE_SA_INIT or IKE_SESSION_RESUME message. `nonce`: the peer's.
    `sk_p`: SK_pi for the initiator, SK_pr for the responder. `identification`: body of the side's ID payload,
    without the generic header. `combined`: `combined_int_auth`; empty without IKE_INTERMEDIATE.
    """
    return first_message + nonce + prf(algorithm, sk_p, identification) + combined


def shared_key_auth(algorithm: PrfAlgorithm, secret: bytes, octets: bytes) -> bytes:
    """Return the AUTH value of method 2 (RFC 7296, section 2.15).

    `secret`: the pre-shared key; after EAP the MSK, or SK_pi or SK_pr if the method has no MSK (section 2.16).
    `octets`: `signed_octets` of the side.
    """
    return prf(algorithm, prf(algorithm, secret, _KEY_PAD), octets)


def resumed_auth(algorithm: PrfAlgorithm, sk_p: bytes, octets: bytes) -> bytes:
    """Return the AUTH value of a resumed IKE SA (RFC 5723, section 4.3.3).

    `sk_p`: SK_pi for the initiator, SK_pr for the responder, of the resumed IKE SA; no key pad. `octets`:
    `signed_octets` of the side, with its IKE_SESSION_RESUME message as the first one.
    """
    return prf(algorithm, sk_p, octets)
