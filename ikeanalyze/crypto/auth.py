"""What the AUTH payloads of an IKE SA are made over: signed octets, IntAuth, and the values for shared keys.

Signatures themselves are made over `signed_octets` and checked with the signer's public key, elsewhere.
"""

from struct import Struct
from typing import Final

from ikeanalyze.crypto.algorithms import PrfAlgorithm
from ikeanalyze.crypto.macs import prf
from ikeanalyze.crypto.sk_payload import DecryptedMessage, find_encrypted_payload
from ikeanalyze.wire.header import HEADER
from ikeanalyze.wire.payload_chain import PAYLOAD_HEADER
from ikeanalyze.wire.registries.ikev2 import PayloadType

_KEY_PAD: Final = b"Key Pad for IKEv2"
_MESSAGE_ID: Final = Struct(">I")
_NEXT_PAYLOAD_AT: Final = 16  # in the IKE header


def get_int_auth_octets(message: bytes, opened: DecryptedMessage) -> bytes:
    """IntAuth_*A | IntAuth_*P: what one IKE_INTERMEDIATE message adds to the authentication (RFC 9242, section 3.3.2).

    `message`: the whole message as sent, or the first of its fragments (RFC 7383); the octets are those of a message
    that was never cut. `opened`: what was in it, of all fragments together. Lengths are as if there were no IV,
    padding and ICV. `ValueError` if the message has no encrypted payload, or is not its first fragment.
    """
    sealed = find_encrypted_payload(message)
    if sealed is None or (sealed.fragment is not None and sealed.fragment[0] != 1):
        raise ValueError("this is no message with an encrypted payload, nor the first of its fragments")
    data = sealed.message
    at, header_at = _NEXT_PAYLOAD_AT, HEADER.size
    behind = sealed.start if sealed.fragment is None else sealed.start - 4
    while header_at + PAYLOAD_HEADER.size != behind:
        at = header_at
        header_at += PAYLOAD_HEADER.unpack_from(data, header_at)[2]
    spi_i, spi_r, first, version, exchange_type, flags, message_id, _ = HEADER.unpack_from(data)
    _, critical, _ = PAYLOAD_HEADER.unpack_from(data, header_at)
    clear = bytearray(data[:header_at])
    size = PAYLOAD_HEADER.size + len(opened.plaintext)
    clear[: HEADER.size] = HEADER.pack(spi_i, spi_r, first, version, exchange_type, flags, message_id, header_at + size)
    clear[at] = PayloadType.SK
    return bytes(clear) + PAYLOAD_HEADER.pack(opened.first, critical, size) + opened.plaintext


def int_auth(algorithm: PrfAlgorithm, sk_p: bytes, previous: bytes, octets: bytes) -> bytes:
    """IntAuth_iN or IntAuth_rN of one more IKE_INTERMEDIATE exchange (RFC 9242, section 3.3.2).

    `sk_p`: SK_pi or SK_pr of the keys that protected the message. `previous`: the value of the exchange before, of
    the same side; empty for the first. `octets`: `get_int_auth_octets` of that side's message.
    """
    return prf(algorithm, sk_p, previous + octets)


def combined_int_auth(int_auth_i: bytes, int_auth_r: bytes, message_id: int) -> bytes:
    """IntAuth, the end of both sides' signed octets. `message_id`: of the first IKE_AUTH request."""
    return int_auth_i + int_auth_r + _MESSAGE_ID.pack(message_id)


def signed_octets(
    algorithm: PrfAlgorithm,
    first_message: bytes,
    nonce: bytes,
    sk_p: bytes,
    identification: bytes,
    combined: bytes = b"",
) -> bytes:
    """InitiatorSignedOctets or ResponderSignedOctets (RFC 7296, section 2.15; RFC 9242, section 3.3.2).

    `first_message`: the side's own IKE_SA_INIT message, the last if there were several. `nonce`: the peer's.
    `sk_p`: SK_pi for the initiator, SK_pr for the responder. `identification`: body of the side's own ID payload,
    without the generic header. `combined`: `combined_int_auth`; empty if there was no IKE_INTERMEDIATE.
    """
    return first_message + nonce + prf(algorithm, sk_p, identification) + combined


def shared_key_auth(algorithm: PrfAlgorithm, secret: bytes, octets: bytes) -> bytes:
    """The AUTH value of method 2 (RFC 7296, section 2.15).

    `secret`: the pre-shared key; after EAP the MSK, or where the method has none SK_pi or SK_pr (section 2.16).
    `octets`: `signed_octets` of the side.
    """
    return prf(algorithm, prf(algorithm, secret, _KEY_PAD), octets)
