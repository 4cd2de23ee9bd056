"""Answers the requests of an EAP-AKA server with a full authentication (RFC 4187). No I/O.

We are USIM and terminal at once. We keep no sequence numbers between handshakes: each SQN of the operator is accepted,
and there is never a synchronisation failure. Pseudonyms and fast re-authentication are not used.
"""

import hmac
from typing import Final

from ikeanalyze.crypto.aka.keys import AkaKeys, compute_aka_mac, compute_checkcode, derive_aka_keys
from ikeanalyze.crypto.aka.milenage import Milenage, reveal_sqn
from ikeanalyze.replay.initiator.interface import RefusedError
from ikeanalyze.wire.eap.aka import clear_mac, encode_sim_aka, read_attributes
from ikeanalyze.wire.ikev2.encode import encode_eap
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.eap import (
    EapCode,
    EapType,
    SimAkaAttribute,
    SimAkaClientError,
    SimAkaNotification,
    SimAkaSubtype,
)

#: Attributes up to this type must be understood (RFC 4187, section 8.1).
_LAST_NON_SKIPPABLE: Final = 127
_IDENTITY_REQUESTS: Final = (
    SimAkaAttribute.AT_PERMANENT_ID_REQ,
    SimAkaAttribute.AT_FULLAUTH_ID_REQ,
    SimAkaAttribute.AT_ANY_ID_REQ,
)
_KNOWN: Final = frozenset(
    {
        *_IDENTITY_REQUESTS,
        SimAkaAttribute.AT_RAND,
        SimAkaAttribute.AT_AUTN,
        SimAkaAttribute.AT_MAC,
        SimAkaAttribute.AT_NOTIFICATION,
    }
)
_RESERVED: Final = bytes(2)
_VALUE_BYTES: Final = len(_RESERVED) + 16  # of AT_RAND, AT_AUTN and AT_MAC
_NO_MAC: Final = bytes(_VALUE_BYTES)
#: Bit of a notification: it is sent before the challenge, and has no AT_MAC (RFC 4187, section 10.19).
_PHASE: Final = 0x4000


class AkaPeer:
    """One EAP-AKA conversation."""

    def __init__(self, identity: str, milenage: Milenage) -> None:
        """`identity`: our permanent identity, sent in the clear."""
        self._identity, self._milenage = identity.encode(), milenage
        self._identity_packets = b""  # AKA-Identity requests and responses, for AT_CHECKCODE
        self._keys: AkaKeys | None = None
        self.problem: str | None = None  # why we or the server refused; the server sends EAP failure after it

    @property
    def key(self) -> bytes | None:
        """The MSK, 64 bytes; None before the challenge is answered, or if it was refused."""
        return self._keys.msk if self._keys is not None and self.problem is None else None

    def respond(self, identifier: int, data: bytes) -> bytes:
        """Return the data of the response to a request with these data, both from the subtype on.

        Raises:
            RefusedError: a request without meaning.
            WireError: invalid attributes.
        """
        subtype, attributes = read_attributes(data)
        unknown = [kind for kind in attributes if kind <= _LAST_NON_SKIPPABLE and kind not in _KNOWN]
        if unknown:
            return self._report_error(f"a request with the unknown attribute {unknown[0]}")
        match subtype:
            case SimAkaSubtype.IDENTITY if any(kind in attributes for kind in _IDENTITY_REQUESTS):
                return self._answer_identity(identifier, data)
            case SimAkaSubtype.AKA_CHALLENGE:
                return self._answer_challenge(identifier, data, attributes)
            case SimAkaSubtype.NOTIFICATION if SimAkaAttribute.AT_NOTIFICATION in attributes:
                return self._answer_notification(identifier, data, attributes)
            case _:
                return self._report_error(f"an unexpected request {get_name(SimAkaSubtype, subtype)}")

    def _answer_identity(self, identifier: int, data: bytes) -> bytes:
        value = len(self._identity).to_bytes(2) + self._identity
        answer = encode_sim_aka(SimAkaSubtype.IDENTITY, [(SimAkaAttribute.AT_IDENTITY, value)])
        self._identity_packets += encode_eap(EapCode.REQUEST, identifier, EapType.AKA, data)
        self._identity_packets += encode_eap(EapCode.RESPONSE, identifier, EapType.AKA, answer)
        return answer

    def _answer_challenge(self, identifier: int, data: bytes, attributes: dict[int, bytes]) -> bytes:
        """Verify that the server knows our key (RFC 4187, section 6.3), and answer with AT_RES."""
        rand, autn = (
            attributes.get(kind, b"")[len(_RESERVED) : _VALUE_BYTES]
            for kind in (SimAkaAttribute.AT_RAND, SimAkaAttribute.AT_AUTN)
        )
        if len(_RESERVED + rand) != _VALUE_BYTES or len(_RESERVED + autn) != _VALUE_BYTES:
            return self._report_error("a challenge without AT_RAND or AT_AUTN")
        vector = self._milenage.compute_vector(rand)
        sqn, amf, received_mac = reveal_sqn(autn, vector)
        expected_mac, _ = self._milenage.compute_macs(rand, sqn, amf)
        if not hmac.compare_digest(received_mac, expected_mac):
            self.problem = "AUTN does not verify: the server of EAP-AKA has a different key"
            return encode_sim_aka(SimAkaSubtype.AUTHENTICATION_REJECT, [])
        keys = derive_aka_keys(self._identity, vector.ik, vector.ck)
        if not _is_mac_valid(keys, identifier, data, attributes):
            return self._report_error("AT_MAC does not verify: the server of EAP-AKA has a different key or identity")
        answer = [(SimAkaAttribute.AT_RES, (8 * len(vector.res)).to_bytes(2) + vector.res)]
        received_checkcode = attributes.get(SimAkaAttribute.AT_CHECKCODE)
        if received_checkcode is not None:
            checkcode = compute_checkcode(self._identity_packets)
            if received_checkcode[len(_RESERVED) :] != checkcode:
                return self._report_error("AT_CHECKCODE does not verify: AKA-Identity packets were changed on the way")
            answer.append((SimAkaAttribute.AT_CHECKCODE, _RESERVED + checkcode))
        self._keys = keys
        return _add_mac(keys, identifier, SimAkaSubtype.AKA_CHALLENGE, answer)

    def _answer_notification(self, identifier: int, data: bytes, attributes: dict[int, bytes]) -> bytes:
        """Acknowledge a notification, with AT_MAC if it is sent after the challenge (RFC 4187, section 6.1)."""
        number = int.from_bytes(attributes[SimAkaAttribute.AT_NOTIFICATION][:2])
        if number != SimAkaNotification.SUCCESS:
            self.problem = f"the server of EAP-AKA refuses: {get_name(SimAkaNotification, number)}"
        if number & _PHASE:
            return encode_sim_aka(SimAkaSubtype.NOTIFICATION, [])
        if self._keys is None or not _is_mac_valid(self._keys, identifier, data, attributes):
            raise RefusedError("an EAP-AKA notification whose AT_MAC does not verify")
        return _add_mac(self._keys, identifier, SimAkaSubtype.NOTIFICATION, [])

    def _report_error(self, problem: str) -> bytes:
        """Return Client-Error (RFC 4187, section 6.3.1): the server ends the conversation."""
        self.problem = f"EAP-AKA: {problem}"
        code = SimAkaClientError.UNABLE_TO_PROCESS.to_bytes(2)
        return encode_sim_aka(SimAkaSubtype.CLIENT_ERROR, [(SimAkaAttribute.AT_CLIENT_ERROR_CODE, code)])


def _is_mac_valid(keys: AkaKeys, identifier: int, data: bytes, attributes: dict[int, bytes]) -> bool:
    """Whether a request has AT_MAC, and it verifies."""
    packet = encode_eap(EapCode.REQUEST, identifier, EapType.AKA, clear_mac(data))
    received = attributes.get(SimAkaAttribute.AT_MAC, b"")[len(_RESERVED) :]
    return hmac.compare_digest(received, compute_aka_mac(keys.k_aut, packet))


def _add_mac(keys: AkaKeys, identifier: int, subtype: int, attributes: list[tuple[SimAkaAttribute, bytes]]) -> bytes:
    """Return the data of a response with AT_MAC as its last attribute."""
    cleared = encode_sim_aka(subtype, [*attributes, (SimAkaAttribute.AT_MAC, _NO_MAC)])
    mac = compute_aka_mac(keys.k_aut, encode_eap(EapCode.RESPONSE, identifier, EapType.AKA, cleared))
    return cleared[: -len(mac)] + mac
