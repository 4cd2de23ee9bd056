"""Keys and AUTH of resumed IKE SAs (RFC 5723).

SKEYSEED = prf(SK_d of the old IKE SA, "Resumption" | Ni | Nr), section 5.1. AUTH = prf(SK_px, <message octets>),
section 4.3.3, of the octets that section 2.15 of RFC 7296 defines.
"""

import hmac
import json

import pytest
from msgspec import structs

from ikeanalyze.analysis.verification.verify import verify_capture
from tests.analysis.encrypted_handshakes import CHILD, IDENTITIES, PSK, Sa
from tests.craft import SECOND, Trace, ike

TICKET = bytes(range(100))
TICKET_LT_OPAQUE, TICKET_OPAQUE = 16409, 16413
NI, NR = bytes([1]) * 32, bytes([2]) * 32
#: Keys of AES-CBC-128 and HMAC-SHA2-256, by size in bytes.
SIZES = {"sk_d": 32, "sk_ai": 32, "sk_ar": 32, "sk_ei": 16, "sk_er": 16, "sk_pi": 32, "sk_pr": 32}


def prf(key, data):
    return hmac.digest(key, data, "sha256")


def derive(skeyseed, seed):
    """{SK_d | SK_ai | ... | SK_pr} = prf+(SKEYSEED, Ni | Nr | SPIi | SPIr) (RFC 7296, sections 2.13 and 2.14)."""
    stream = block = b""
    for number in range(1, 9):
        block = prf(skeyseed, block + seed + bytes([number]))
        stream += block
    keys = {}
    for name, size in SIZES.items():
        keys[name], stream = stream[:size], stream[size:]
    return keys


def to_json(keys, skeyseed=None):
    values = {name: getattr(keys, name) for name in ("spi_i", "spi_r", *SIZES)}
    entry = {name: value.hex() for name, value in values.items() if value is not None}
    entry |= {"encryption": keys.encryption, "integrity": keys.integrity}
    if skeyseed is not None:
        entry["derivation"] = {"nonces": (NI + NR).hex(), "skeyseed": skeyseed.hex(), "prf": "HMAC_SHA2_256"}
    return entry


def first_message_only(octets, message):
    return message


def signed_octets(octets, message):
    return octets


def verify(
    tmp_path,
    *,
    given=TICKET,
    returned=TICKET,
    sk_d=bytes(32),
    used=bytes(32),
    order=NI + NR,
    covered=signed_octets,
    secrets=("sk_pi", "sk_pr"),
    method=2,
):
    """The checks of the second IKE SA.

    `given`: the ticket in the IKE_AUTH response of the first one; None: none. `sk_d`: of the first one in the key file;
    None: it has none. `used`: the SK_d that the second one was made of, with the nonces in this `order`.
    `covered`: what AUTH is computed from, of the octets to be signed and the first message of that side, with which of
    the keys as `secrets`. `method`: that the AUTH payloads name.
    """
    old, new = Sa(1, proposals=(ike.CLASSIC,)), Sa(2, proposals=(ike.CLASSIC,))
    old.key_sets[0] = structs.replace(old.key_sets[0], sk_d=sk_d)
    ticket = [] if given is None else [ike.notify(TICKET_LT_OPAQUE, bytes(4) + given)]
    messages = [*old.init(), *old.authenticated(response=[IDENTITIES[False], PSK, *CHILD, *ticket])]
    skeyseed = prf(used, b"Resumption" + order)
    keys = derive(skeyseed, NI + NR + new.spi_i + new.spi_r)
    new.key_sets[0] = structs.replace(new.key_sets[0], **keys)
    request = [ike.nonce(NI), ike.notify(TICKET_OPAQUE, returned)]
    resume = [
        new.clear(ike.IKE_SESSION_RESUME, request, spi_r=bytes(8)),
        new.clear(ike.IKE_SESSION_RESUME, [ike.nonce(NR)], from_initiator=False, response=True),
    ]
    new.message_id[True] = 1
    trace = Trace()
    trace.play(messages)
    auth = []
    for from_initiator, message, nonce, secret in zip((True, False), resume, (NR, NI), secrets, strict=True):
        kind, body = IDENTITIES[from_initiator]
        (first,) = message.datagrams
        octets = first + nonce + prf(keys["sk_pi" if from_initiator else "sk_pr"], body)
        value = prf(keys[secret], covered(octets, first))
        auth.append([(kind, body), ike.auth(method, value), *CHILD])
    request, response = auth
    trace.play([*resume, *new.authenticated(request=request, response=response)], at=60 * SECOND)
    path = tmp_path / "keys.json"
    entries = [to_json(old.key_sets[0]), to_json(new.key_sets[0], skeyseed)]
    path.write_text(json.dumps({"schema": "ikeanalyze.keys/1", "key_sets": entries}))
    _, resumed = verify_capture(trace.write(tmp_path / "x.pcap"), path).handshakes
    return resumed.checks


def ended(checks):
    return {check.what: check.outcome for check in checks}


def why(checks, what):
    return next(check.why for check in checks if check.what == what)


@pytest.mark.parametrize("given", [TICKET, None])
def test_skeyseed_of_a_resumed_ike_sa(tmp_path, given):
    """With the ticket, and by the value alone, if the capture does not have the ticket of the first IKE SA."""
    checks = verify(tmp_path, given=given)
    names = ("ICV", "nonces", "SKEYSEED", *(f"SK_{name.removeprefix('sk_')}" for name in SIZES))
    assert ended(checks) == dict.fromkeys((*names, "AUTH"), "passed")


@pytest.mark.parametrize("wrong", [{"used": bytes([1]) * 32}, {"order": NR + NI}])
def test_a_wrong_skeyseed_of_a_resumed_ike_sa(tmp_path, wrong):
    """The ticket shows of which IKE SA the SK_d is to be: only SKEYSEED fails."""
    checks = verify(tmp_path, **wrong)
    assert [check.what for check in checks if check.outcome == "failed"] == ["SKEYSEED"]


def test_an_sk_d_that_is_not_known(tmp_path):
    checks = verify(tmp_path, sk_d=None)
    assert ended(checks)["SKEYSEED"] == "not made"
    assert why(checks, "SKEYSEED") == "no key file has the SK_d of the IKE SA that it resumes"
    assert ended(checks)["SK_d"] == "passed"


def test_a_ticket_of_an_ike_sa_that_is_not_in_the_capture(tmp_path):
    checks = verify(tmp_path, given=bytes(100), used=bytes([1]) * 32)
    assert ended(checks)["SKEYSEED"] == "not made"
    said = "the capture does not show which IKE SA it resumes, and it is none whose SK_d is known"
    assert why(checks, "SKEYSEED") == said


@pytest.mark.parametrize("method", [1, 2, 13, 14])
def test_auth_of_a_resumed_ike_sa_is_made_with_its_sk_p(tmp_path, method):
    """Of both sides, whatever method the payloads name: the IKE SA is authenticated by the ticket."""
    auth = [check for check in verify(tmp_path, method=method) if check.what == "AUTH"]
    said = [("initiator", "SK_pi, since the IKE SA is resumed"), ("responder", "SK_pr, since the IKE SA is resumed")]
    assert [(check.side, check.how) for check in auth] == said
    assert {check.outcome for check in auth} == {"passed"}


def test_auth_of_a_resumed_ike_sa_with_the_key_of_the_other_side(tmp_path):
    checks = [check for check in verify(tmp_path, secrets=("sk_pr", "sk_pr")) if check.what == "AUTH"]
    assert [(check.side, check.outcome) for check in checks] == [("initiator", "failed"), ("responder", "passed")]
    assert why(checks, "AUTH") == "the capture has another value than this SK_pi makes"


def test_auth_of_a_resumed_ike_sa_that_covers_only_its_first_message(tmp_path):
    """As libreswan 5 reads the formula of section 4.3.3."""
    checks = verify(tmp_path, covered=first_message_only)
    assert ended(checks)["AUTH"] == "failed"
    said = "it covers only the IKE_SESSION_RESUME message, and neither the nonce nor the identity"
    assert why(checks, "AUTH") == said
