"""Checks of the AUTH payloads of both sides (RFC 7296, sections 2.15 and 2.16; RFC 7427; RFC 7619; RFC 9242).

An AUTH payload of method 2 is made with the PSK or, once an EAP method has run, with its MSK; where the method makes no
key, with the side's SK_p. One of a signature is verified with the key in the side's CERT payload; whether that
certificate is to be trusted is not looked at.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ikeanalyze.analysis.verification.checks import (
    Outcome,
    VerificationCheck,
    compare_values,
    compute_digest,
    describe_message,
    name_sender,
)
from ikeanalyze.analysis.verification.daemon_log_index import DaemonLogIndex
from ikeanalyze.analysis.verification.ike_sas import IkeSaRecord, SentMessage, get_key_values
from ikeanalyze.analysis.verification.int_auth_checks import IntAuthValues
from ikeanalyze.crypto.algorithms import PrfAlgorithm, get_prf
from ikeanalyze.crypto.auth import shared_key_auth, signed_octets
from ikeanalyze.crypto.signatures import UnverifiableSignatureError, check_signature
from ikeanalyze.keys.charon.model import LoggedAuth
from ikeanalyze.keys.psk import PreSharedKeys
from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.eap.packet import get_eap_method
from ikeanalyze.wire.ikev2.auth_methods import get_authentication_name
from ikeanalyze.wire.ikev2.payloads import Authentication, Certificate, parse_authentication, parse_certificate
from ikeanalyze.wire.registries.ikev2 import AuthMethod, CertEncoding, ExchangeType, PayloadType
from ikeanalyze.wire.x509.certificates import decode_certificate

_AUTHS: Final = frozenset({ExchangeType.IKE_AUTH, ExchangeType.GSA_AUTH})
#: EAP methods that make no key (RFC 3748, sections 5.4 to 5.6).
_KEYLESS: Final = frozenset({"EAP-MD5", "EAP-OTP", "EAP-GTC"})
#: Encodings that may stand among certificates and have no key in them.
_NO_KEY: Final = frozenset({CertEncoding.CRL, CertEncoding.ARL, CertEncoding.OCSP})

#: Methods as a log has them.
_PSK, _EAP = "pre-shared key", "EAP"


class MissingValueError(Exception):
    """A check cannot be made: what is missing."""


@dataclass(slots=True)
class _AuthSide:
    """What one side has sent in IKE_AUTH so far."""

    identity: bytes | None = None  # body of its ID payload
    certificates: list[Certificate] = field(default_factory=list)  # of the last message that had some
    authenticated: bool = False


@dataclass(frozen=True, slots=True)
class _SignedOctets:
    """What a side has to sign."""

    value: bytes = field(repr=False)
    sk_p: bytes = field(repr=False)
    algorithm: PrfAlgorithm


def check_auth_payloads(
    sa: IkeSaRecord, logs: DaemonLogIndex, intermediate: IntAuthValues, psk: PreSharedKeys | None
) -> Iterator[VerificationCheck]:
    """The checks of one IKE SA's AUTH payloads, in their order. `psk` goes before what logs have."""
    sides = {True: _AuthSide(), False: _AuthSide()}
    eap: list[bytes] = []
    for one in sa.messages:
        content = one.content
        if content.exchange_type not in _AUTHS or not content.encrypted:
            continue
        side = sides[content.from_initiator]
        identities = content.get_bodies(PayloadType.IDI if content.from_initiator else PayloadType.IDR)
        if identities:
            if side.identity is not None and content.from_initiator:
                eap.clear()  # another round of authentication begins (RFC 4739)
            side.identity = identities[0]
        side.certificates = list(_certificates(content.get_bodies(PayloadType.CERT))) or side.certificates
        for body in content.get_bodies(PayloadType.AUTH):
            side.authenticated = True
            yield from _AuthPayload(sa, logs, intermediate, psk, one, side, list(eap)).checks(body)
        eap.extend(content.get_bodies(PayloadType.EAP))
    if sa.parent is None and any(one.content.exchange_type in _AUTHS for one in sa.messages):
        for initiator, side in sides.items():
            if not side.authenticated:
                yield VerificationCheck(
                    sa.handshake, "AUTH", "not made", why=_absent(sa, initiator), side=name_sender(initiator)
                )


def _certificates(bodies: Sequence[bytes]) -> Iterator[Certificate]:
    for body in bodies:
        try:
            yield parse_certificate(body)
        except WireError:
            continue


def _absent(sa: IkeSaRecord, initiator: bool) -> str:
    closed = [one for one in sa.closed if one.exchange_type in _AUTHS and one.from_initiator == initiator]
    if closed:
        return "not all of its IKE_AUTH messages could be decrypted"
    return "the decrypted messages have no AUTH payload of this side"


@dataclass(frozen=True, slots=True)
class _AuthPayload:
    """One AUTH payload, with what stood before it."""

    sa: IkeSaRecord
    logs: DaemonLogIndex
    intermediate: IntAuthValues
    psk: PreSharedKeys | None
    sent: SentMessage
    side: _AuthSide
    eap: list[bytes]  # EAP packets before it

    def checks(self, body: bytes) -> Iterator[VerificationCheck]:
        """What was signed, where a log says it, and the AUTH payload itself."""
        try:
            authentication = parse_authentication(body)
        except WireError as problem:
            yield self._check("AUTH", "failed", why=f"the AUTH payload is too short: {problem}")
            return
        try:
            candidates = self._octets()
        except MissingValueError as missing:
            yield self._check("AUTH", "not made", why=str(missing))
            return
        # with a PPK, the one of two that a log has is the one that counts
        octets = next((one for one in candidates if self._records(one)), candidates[0])
        yield from self._signed(octets)
        if authentication.method in (AuthMethod.SHARED_KEY, AuthMethod.NULL):
            yield self._shared(authentication, octets)
        else:
            yield self._signature(authentication, octets)

    def _octets(self) -> list[_SignedOctets]:
        sa, initiator = self.sa, self.sent.content.from_initiator
        own, peers_nonce = (sa.request, sa.nonce_r) if initiator else (sa.response, sa.nonce_i)
        algorithm, keys = get_prf(sa.chosen), self.sent.content.keys
        if own is None or peers_nonce is None:
            raise MissingValueError("the capture lacks a message of its IKE_SA_INIT exchange")
        if self.side.identity is None:
            raise MissingValueError("the decrypted messages have no ID payload of this side")
        if algorithm is None:
            raise MissingValueError("the PRF that was negotiated is not known")
        if self.intermediate.octets is None:
            raise MissingValueError(self.intermediate.lacks or "what IKE_INTERMEDIATE adds is not known")
        name = "SK_pi" if initiator else "SK_pr"
        sk_p = None if keys is None else keys.sk_pi if initiator else keys.sk_pr
        some = [] if keys is None else self.logs.find_sk_p(get_key_values(keys), sk_p, initiator=initiator)
        if not some:
            raise MissingValueError(f"no key file has the {name} of its epoch")
        return [
            _SignedOctets(
                signed_octets(algorithm, own.message, peers_nonce, one, self.side.identity, self.intermediate.octets),
                one,
                algorithm,
            )
            for one in some
        ]

    def _records(self, octets: _SignedOctets) -> list[LoggedAuth]:
        """What logs have of this side with this SK_p."""
        side = name_sender(self.sent.content.from_initiator)
        return [one for one in self.logs.auths.get(octets.sk_p, ()) if one.side in (side, None)]

    def _signed(self, octets: _SignedOctets) -> Iterator[VerificationCheck]:
        records = [one for one in self._records(octets) if one.identity in (self.side.identity, b"")]
        for record in {one.octets: one for one in reversed(records)}.values():
            outcome = compare_values(octets.value, record.octets)
            check = self._check(
                "signed octets", outcome, expected=compute_digest(octets.value), found=compute_digest(record.octets)
            )
            why = None if outcome == "passed" else "the log has other octets than what follows from the capture"
            yield replace(check, why=why, origin=record.origin)

    def _shared(self, authentication: Authentication, octets: _SignedOctets) -> VerificationCheck:
        try:
            secrets, how = self._secrets(authentication, octets)
        except MissingValueError as missing:
            return self._check("AUTH", "not made", why=str(missing))
        values = [shared_key_auth(octets.algorithm, secret, octets.value) for secret in secrets]
        found = compute_digest(authentication.data)
        if authentication.data in values:
            return self._check("AUTH", "passed", how=how, expected=found, found=found)
        if len(values) > 1:
            why = f"none of {len(values)} secrets makes this value"
            return self._check("AUTH", "failed", how=how, why=why, found=found)
        why = "the capture has another value than this secret makes"
        return self._check("AUTH", "failed", how=how, why=why, expected=compute_digest(values[0]), found=found)

    def _secrets(self, authentication: Authentication, octets: _SignedOctets) -> tuple[list[bytes], str]:
        """Secrets that may have been used, and what they are."""
        sk_p = "SK_pi" if self.sent.content.from_initiator else "SK_pr"
        if authentication.method == AuthMethod.NULL:
            return [octets.sk_p], f"{sk_p}, since the method is NULL"
        if not self.eap:
            return self._psks(self._records(octets))
        records = self._records(octets)
        noted = [one.secret for one in records if one.secret is not None and one.method != _PSK]
        method = get_eap_method(self.eap)
        if method in _KEYLESS:
            return [octets.sk_p], f"{sk_p}, since {method} makes no key"
        if own := list(dict.fromkeys(noted)):
            return own, (
                f"MSK of {method or 'EAP'}, of the log" if own != [octets.sk_p] else f"{sk_p}, as the log has it"
            )
        if self.logs.msks:
            return self.logs.msks, f"MSK of {method or 'EAP'}, of the log"
        raise MissingValueError(f"no key file has the MSK of {method or 'its EAP method'}")

    def _psks(self, records: list[LoggedAuth]) -> tuple[list[bytes], str]:
        if self.psk is not None:
            return list(self.psk.secrets), f"PSK of {self.psk.path}"
        keys = self.sent.content.keys
        other = keys and (keys.sk_pr if self.sent.content.from_initiator else keys.sk_pi)
        # a log has that of the other side at least, which is nearly always the same
        for some in (records, self.logs.auths.get(other or b"", [])):
            secrets = [one.secret for one in some if one.secret is not None and one.method != _EAP]
            if secrets:
                return list(dict.fromkeys(secrets)), "PSK of the log"
        raise MissingValueError("no key file has the PSK; --psk gives it")

    def _signature(self, authentication: Authentication, octets: _SignedOctets) -> VerificationCheck:
        found = compute_digest(authentication.data)
        keyed = [one for one in self.side.certificates if one.encoding not in _NO_KEY]
        if not keyed:
            return self._check("AUTH", "not made", why="the capture has no certificate of this side", found=found)
        name = get_authentication_name(authentication)
        how = f"{name}, {decode_certificate(keyed[0]).name}, whose chain is not looked at"
        try:
            wrong = check_signature(authentication, keyed[0], octets.value)
        except UnverifiableSignatureError as problem:
            return self._check("AUTH", "not made", how=how, why=problem.reason, found=found)
        return self._check("AUTH", "passed" if wrong is None else "failed", how=how, why=wrong, found=found)

    def _check(
        self,
        what: str,
        outcome: Outcome,
        *,
        why: str | None = None,
        how: str | None = None,
        expected: str | None = None,
        found: str | None = None,
    ) -> VerificationCheck:
        content = self.sent.content
        return VerificationCheck(
            self.sa.handshake,
            what,
            outcome,
            why=why,
            how=how,
            expected=expected,
            found=found,
            epoch=content.epoch,
            side=name_sender(content.from_initiator),
            exchange=describe_message(content.exchange_type, content.message_id, content.response),
            frame=content.frame,
        )
