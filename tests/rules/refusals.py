"""Reads the test vectors of refusals.toml, and makes the capture and the keys of a case."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ikeanalyze.wire.registries.ikev2_notifies import NotifyType
from tests.analysis.encrypted_handshakes import Sa, encapsulation_key, selectors, table
from tests.craft import Trace, ike

#: Numbers of methods, and bytes of their public values (RFC 7296, 3.4; RFC 5903, 7; RFC 3526).
GROUPS = {"MODP-2048": (14, 256), "ECP-256": (19, 64), "ECP-384": (20, 96)}
#: ENCR_CHACHA20_POLY1305 is 28 (RFC 7634, 2).
CIPHERS = {"": ike.Transform(ike.ENCR, ike.ENCR_AES_GCM_16, 256), "chacha20": ike.Transform(ike.ENCR, 28)}
REKEY_SA = 16393
ADDITIONAL_KEY_EXCHANGE = 16441


@dataclass(frozen=True)
class RefusalCase:
    """A case, and its expected diagnosis."""

    name: str
    exchanges: str
    codes: list[str]
    message: str | None = None
    confidence: str | None = None
    says: str = ""

    def __str__(self):
        return self.name


@cache
def read_refusal_cases() -> list[RefusalCase]:
    found = tomllib.loads(Path(__file__).with_name("refusals.toml").read_text())
    return [RefusalCase(**case) for case in found["case"]]


def make_refusal_trace(case: RefusalCase) -> tuple[Trace, str]:
    """The packets of a case, and a key table."""
    sa = Sa(1, proposals=[ike.CLASSIC])
    trace = Trace()
    messages = sa.whole()
    for line in case.exchanges.strip().splitlines():
        sender, request, methods, network, response = line.split()
        kind = ike.IKE_FOLLOWUP_KE if request == "followup" else ike.CREATE_CHILD_SA
        asked = make_payloads(sa, request, methods, network)
        if response == "accepted":
            answer = make_payloads(sa, request, methods, network, response=True)
        else:
            answer = [make_error(response)]
        messages += sa.swap(kind, asked, answer, by_initiator=sender == "initiator")
    trace.play(messages)
    return trace, table(*sa.key_sets)


def make_error(text: str) -> ike.Payload:
    name, _, method = text.partition("/")
    return ike.notify(NotifyType[name], GROUPS[method][0].to_bytes(2, "big") if method else b"")


def make_payloads(sa: Sa, request: str, methods: str, network: str, *, response: bool = False) -> list[ike.Payload]:
    """The payloads of a request, or those of the response that accepts it (RFC 7296, 1.3; RFC 9370, 2.2.4)."""
    link = ike.notify(ADDITIONAL_KEY_EXCHANGE, b"link")
    if request == "followup":
        data = sa.rng.randbytes(ike.KE_BYTES[ike.ML_KEM_768][1]) if response else encapsulation_key(sa.rng)
        return [ike.ke(ike.ML_KEM_768, data), *([] if response else [link])]
    cipher, _, rest = methods.partition("/") if methods.startswith("chacha20") else ("", "", methods)
    group, _, additional = rest.partition("/")
    transforms = [CIPHERS[cipher]]
    if request == "rekey-ike":
        transforms.append(ike.Transform(ike.PRF, ike.PRF_HMAC_SHA2_256))
    if group != "-":
        transforms.append(ike.Transform(ike.DH, GROUPS[group][0]))
    if additional:
        transforms.append(ike.Transform(ike.ADDKE1, ike.ML_KEM_768))
    if request != "rekey-ike":
        transforms.append(ike.Transform(ike.ESN, 0))
    protocol, spi = (1, sa.rng.randbytes(8)) if request == "rekey-ike" else (3, b"spi!")
    payloads = [ike.sa([ike.Proposal(transforms, protocol, spi)]), ike.nonce(sa.rng.randbytes(32))]
    if group != "-":
        payloads.append(ike.ke(GROUPS[group][0], sa.rng.randbytes(GROUPS[group][1])))
    if network != "-":
        payloads += [selectors(ike.TS_I, network), selectors(ike.TS_R, "10.2.0")]
    if request == "rekey-child" and not response:
        payloads.insert(0, ike.notify(REKEY_SA, protocol=3, spi=b"old!"))
    if additional and response:
        payloads.append(link)
    return payloads
