"""Checks the AUTH payloads of both sides (RFC 5723; RFC 7296, sections 2.15 and 2.16; RFC 7427; RFC 7619; RFC 9242).

A shared key AUTH payload is computed with the PSK or, after EAP, with the MSK of the EAP method, or with SK_pi or SK_pr
if the method makes no key. A signature is verified with the key of the side's CERT payload; its certificate chain is
not verified. A resumed IKE SA has no other secret than SK_pi and SK_pr, however the first one was authenticated.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from ikeanalyze.analysis.verification.checks import (
    MissingValueError,
    VerificationCheck,
    compare_values,
    compute_digest,
    make_message_check,
    name_sender,
)
from ikeanalyze.analysis.verification.daemon_log_index import DaemonLogIndex
from ikeanalyze.analysis.verification.ike_sas import IkeSaRecord, SentMessage, find_negotiated_prf, get_key_values
from ikeanalyze.analysis.verification.int_auth_checks import IntAuthValues
from ikeanalyze.crypto.algorithms import PrfAlgorithm
from ikeanalyze.crypto.auth import resumed_auth, shared_key_auth, signed_octets
from ikeanalyze.crypto.signatures import UnverifiableSignatureError, check_signature
from ikeanalyze.keys.charon.model import LoggedAuth
from ikeanalyze.keys.psk import PreSharedKeys
from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.eap.packet import get_eap_method
from ikeanalyze.wire.ikev2.auth_methods import get_authentication_name
from ikeanalyze.wire.ikev2.payloads import Authentication, Certificate, parse_authentication, parse_certificate
from ikeanalyze.wire.registries.ikev2 import AUTH_EXCHANGES, AuthMethod, CertEncoding, PayloadType
from ikeanalyze.wire.x509.certificates import decode_certificate

#: EAP methods that make no key (RFC 3748, sections 5.4 to 5.6).
_KEYLESS: Final = frozenset({"EAP-MD5", "EAP-OTP", "EAP-GTC"})
#: Encodings in CERT payloads that contain no key.
_NO_KEY: Final = frozenset({CertEncoding.CRL, CertEncoding.ARL, CertEncoding.OCSP})

#: Names of authentication methods in logs.
_PSK, _EAP = "pre-shared key", "EAP"


@dataclass(slots=True)
class _AuthSide:
    """State of one side during IKE_AUTH."""

    identity: bytes | None = None  # body of its ID payload
    certificates: list[Certificate] = field(default_factory=list)  # of the last message with CERT payloads
    authenticated: bool = False  # has sent an AUTH payload


@dataclass(frozen=True, slots=True)
class _SignedOctets:
    """The octets that a side signs (RFC 7296, section 2.15)."""

    value: bytes = field(repr=False)
    sk_p: bytes = field(repr=False)
    algorithm: PrfAlgorithm


def check_auth_payloads(
    sa: IkeSaRecord, logs: DaemonLogIndex, intermediate: IntAuthValues, psk: PreSharedKeys | None
) -> Iterator[VerificationCheck]:
    """The checks of the AUTH payloads of one IKE SA, in order. `psk` takes precedence over the logs."""
    sides = {True: _AuthSide(), False: _AuthSide()}
    eap: list[bytes] = []
    for sent in sa.messages:
        content = sent.content
        if content.exchange_type not in AUTH_EXCHANGES or not content.encrypted:
            continue
        side = sides[content.from_initiator]
        identities = content.get_bodies(PayloadType.IDI if content.from_initiator else PayloadType.IDR)
        if identities:
            if side.identity is not None and content.from_initiator:
                eap.clear()  # another authentication begins (RFC 4739)
            side.identity = identities[0]
        side.certificates = list(content.parse_bodies(PayloadType.CERT, parse_certificate)) or side.certificates
        for body in content.get_bodies(PayloadType.AUTH):
            side.authenticated = True
            yield from _AuthPayloadChecker(sa, logs, intermediate, psk, sent, side, list(eap)).check(body)
        eap.extend(content.get_bodies(PayloadType.EAP))
    if sa.parent is None and any(sent.content.exchange_type in AUTH_EXCHANGES for sent in sa.messages):
        for initiator, side in sides.items():
            if not side.authenticated:
                why = _explain_missing_auth(sa, initiator)
                yield VerificationCheck(sa.handshake, "AUTH", "not made", why=why, side=name_sender(initiator))


def _explain_missing_auth(sa: IkeSaRecord, initiator: bool) -> str:
    undecrypted = (message for message in sa.undecrypted if message.from_initiator == initiator)
    if any(message.exchange_type in AUTH_EXCHANGES for message in undecrypted):
        return "not all of its IKE_AUTH messages could be decrypted"
    return "the decrypted messages have no AUTH payload of this side"


@dataclass(frozen=True, slots=True)
class _AuthPayloadChecker:
    """Checks one AUTH payload."""

    sa: IkeSaRecord
    logs: DaemonLogIndex
    intermediate: IntAuthValues
    psk: PreSharedKeys | None
    sent: SentMessage
    side: _AuthSide
    eap: list[bytes]  # EAP packets before the AUTH payload

    @property
    def _sk_p_name(self) -> str:
        return "SK_pi" if self.sent.content.from_initiator else "SK_pr"

    def check(self, body: bytes) -> Iterator[VerificationCheck]:
        """Check the signed octets, if a log has them, and the AUTH payload."""
        try:
            authentication = parse_authentication(body)
        except WireError as error:
            yield self._make_check("AUTH", "failed", why=f"the AUTH payload is too short: {error}")
            return
        try:
            candidates = self._compute_signed_octets()
        except MissingValueError as error:
            yield self._make_check("AUTH", "not made", why=str(error))
            return
        # with a PPK, the log shows which of the two candidates was used
        octets = next((candidate for candidate in candidates if self._get_logged(candidate)), candidates[0])
        yield from self._check_signed_octets(octets)
        if self.sa.is_resumed:
            yield self._check_resumed(authentication, octets)
        elif authentication.method in (AuthMethod.SHARED_KEY, AuthMethod.NULL):
            yield self._check_shared_key(authentication, octets)
        else:
            yield self._check_signature(authentication, octets)

    def _compute_signed_octets(self) -> list[_SignedOctets]:
        """The signed octets with each candidate for SK_pi or SK_pr."""
        sa, initiator = self.sa, self.sent.content.from_initiator
        own, peers_nonce = (sa.request, sa.nonce_r) if initiator else (sa.response, sa.nonce_i)
        algorithm, keys = find_negotiated_prf(sa), self.sent.content.keys
        if own is None or peers_nonce is None:
            raise MissingValueError("the capture lacks a message of its IKE_SA_INIT or IKE_SESSION_RESUME exchange")
        if own.is_truncated:
            raise MissingValueError("the snapshot length truncates its IKE_SA_INIT or IKE_SESSION_RESUME message")
        if self.side.identity is None:
            raise MissingValueError("the decrypted messages have no ID payload of this side")
        if algorithm is None:
            raise MissingValueError("the negotiated PRF is unknown")
        if self.intermediate.octets is None:
            raise MissingValueError(self.intermediate.missing or "the IntAuth of IKE_INTERMEDIATE is unknown")
        sk_p = None if keys is None else keys.sk_pi if initiator else keys.sk_pr
        candidates = [] if keys is None else self.logs.find_sk_p(get_key_values(keys), sk_p, initiator=initiator)
        if not candidates:
            raise MissingValueError(f"no key file has the {self._sk_p_name} of its epoch")
        return [
            _SignedOctets(
                signed_octets(algorithm, own.message, peers_nonce, key, self.side.identity, self.intermediate.octets),
                key,
                algorithm,
            )
            for key in candidates
        ]

    def _get_logged(self, octets: _SignedOctets) -> list[LoggedAuth]:
        """The log entries of this side with this SK_pi or SK_pr."""
        side = name_sender(self.sent.content.from_initiator)
        return [logged for logged in self.logs.auths.get(octets.sk_p, ()) if logged.side in (side, None)]

    def _check_signed_octets(self, octets: _SignedOctets) -> Iterator[VerificationCheck]:
        entries = [logged for logged in self._get_logged(octets) if logged.identity in (self.side.identity, b"")]
        for logged in {entry.octets: entry for entry in reversed(entries)}.values():
            why = "the log has other octets than what follows from the capture"
            comparison = compare_values(octets.value, logged.octets, why)
            yield self._make_check("signed octets", origin=logged.origin, **comparison)

    def _check_resumed(self, authentication: Authentication, octets: _SignedOctets) -> VerificationCheck:
        """Check the AUTH payload of a resumed IKE SA, whatever method it names (RFC 5723, section 4.3.3)."""
        expected = resumed_auth(octets.algorithm, octets.sk_p, octets.value)
        why = f"the capture has another value than this {self._sk_p_name} makes"
        own = self.sa.request if self.sent.content.from_initiator else self.sa.response
        # as libreswan 5 does it
        if own is not None and authentication.data == resumed_auth(octets.algorithm, octets.sk_p, own.message):
            why = "it covers only the IKE_SESSION_RESUME message, and neither the nonce nor the identity"
        how = f"{self._sk_p_name}, since the IKE SA is resumed"
        return self._make_check("AUTH", how=how, **compare_values(expected, authentication.data, why))

    def _check_shared_key(self, authentication: Authentication, octets: _SignedOctets) -> VerificationCheck:
        try:
            secrets, how = self._get_secrets(authentication, octets)
        except MissingValueError as error:
            return self._make_check("AUTH", "not made", why=str(error))
        values = [shared_key_auth(octets.algorithm, secret, octets.value) for secret in secrets]
        if len(values) > 1 and authentication.data not in values:
            why = f"none of {len(values)} secrets makes this value"
            return self._make_check("AUTH", "failed", how=how, why=why, found=compute_digest(authentication.data))
        expected = authentication.data if authentication.data in values else values[0]
        why = "the capture has another value than this secret makes"
        return self._make_check("AUTH", how=how, **compare_values(expected, authentication.data, why))

    def _get_secrets(self, authentication: Authentication, octets: _SignedOctets) -> tuple[list[bytes], str]:
        """The candidate secrets, and their description."""
        if authentication.method == AuthMethod.NULL:
            return [octets.sk_p], f"{self._sk_p_name}, since the method is NULL"
        entries = self._get_logged(octets)
        if not self.eap:
            return self._get_psks(entries)
        method = get_eap_method(self.eap)
        if method in _KEYLESS:
            return [octets.sk_p], f"{self._sk_p_name}, since {method} makes no key"
        secrets = _get_logged_secrets(entries, other_than=_PSK)
        if secrets == [octets.sk_p]:
            return secrets, f"{self._sk_p_name}, as the log has it"
        if secrets := secrets or self.logs.msks:
            return secrets, f"MSK of {method or 'EAP'}, of the log"
        raise MissingValueError(f"no key file has the MSK of {method or 'its EAP method'}")

    def _get_psks(self, entries: list[LoggedAuth]) -> tuple[list[bytes], str]:
        if self.psk is not None:
            return list(self.psk.secrets), f"PSK of {self.psk.path}"
        keys = self.sent.content.keys
        other = keys and (keys.sk_pr if self.sent.content.from_initiator else keys.sk_pi)
        # a log has at least the PSK of the other side, which is nearly always the same
        for candidates in (entries, self.logs.auths.get(other or b"", [])):
            if secrets := _get_logged_secrets(candidates, other_than=_EAP):
                return secrets, "PSK of the log"
        raise MissingValueError("no key file has the PSK; --psk gives it")

    def _check_signature(self, authentication: Authentication, octets: _SignedOctets) -> VerificationCheck:
        found = compute_digest(authentication.data)
        certificates = [certificate for certificate in self.side.certificates if certificate.encoding not in _NO_KEY]
        if not certificates:
            return self._make_check("AUTH", "not made", why="the capture has no certificate of this side", found=found)
        name = get_authentication_name(authentication)
        how = f"{name}, {decode_certificate(certificates[0]).name}, whose chain is not checked"
        try:
            problem = check_signature(authentication, certificates[0], octets.value)
        except UnverifiableSignatureError as error:
            return self._make_check("AUTH", "not made", how=how, why=str(error), found=found)
        return self._make_check("AUTH", "passed" if problem is None else "failed", how=how, why=problem, found=found)

    def _make_check(self, *args: Any, **details: Any) -> VerificationCheck:
        return make_message_check(self.sent.content, *args, **details)


def _get_logged_secrets(entries: Iterable[LoggedAuth], *, other_than: str) -> list[bytes]:
    """The distinct secrets of log entries whose method is not `other_than`."""
    secrets = (entry.secret for entry in entries if entry.method != other_than)
    return list(dict.fromkeys(secret for secret in secrets if secret is not None))
