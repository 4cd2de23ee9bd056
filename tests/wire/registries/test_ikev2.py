import pytest

from ikeanalyze.wire.registries import get_name, ikev2
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType
from tests.wire.registries.oracle import normal, values

#: IANA's long names of payload types, by notation.
PAYLOADS = {
    "SA": "Security Association",
    "KE": "Key Exchange",
    "IDi": "Identification - Initiator",
    "IDr": "Identification - Responder",
    "CERT": "Certificate",
    "CERTREQ": "Certificate Request",
    "AUTH": "Authentication",
    "No": "Nonce",
    "N": "Notify",
    "D": "Delete",
    "V": "Vendor ID",
    "TSi": "Traffic Selector - Initiator",
    "TSr": "Traffic Selector - Responder",
    "SK": "Encrypted and Authenticated",
    "CP": "Configuration",
    "EAP": "Extensible Authentication",
    "GSPM": "Generic Secure Password Method",
    "IDg": "Group Identification",
    "GSA": "Group Security Association",
    "KD": "Key Download",
    "SKF": "Encrypted and Authenticated Fragment",
}


@pytest.mark.parametrize(
    ("registry", "value", "name"),
    [
        (ikev2.ExchangeType, 34, "IKE_SA_INIT"),
        (ikev2.ExchangeType, 38, "IKE_SESSION_RESUME"),
        (ikev2.ExchangeType, 43, "IKE_INTERMEDIATE"),
        (ikev2.ExchangeType, 44, "IKE_FOLLOWUP_KE"),
        (ikev2.ExchangeType, 45, "45"),
        (ikev2.PayloadType, 53, "SKF"),
        (ikev2.HashAlgorithm, 2, "SHA2-256"),
        (ikev2.HashAlgorithm, 5, "Identity"),
        (ikev2.AuthMethod, 14, "Digital Signature"),
        (NotifyType, 16390, "COOKIE"),
    ],
)
def test_values_have_names(registry, value, name):
    assert get_name(registry, value) == name


def test_exchange_types_have_no_gap():
    assert sorted(ikev2.ExchangeType) == list(range(34, 45))
    assert sorted(ikev2.PayloadType) == [0, *range(33, 55)]


@pytest.mark.tshark
def test_exchange_types_against_tshark():
    known = values()["isakmp.exchangetype"]
    for kind in ikev2.ExchangeType:
        # 39 to 42 have been unassigned there for longer than at IANA
        if kind in known and kind not in range(39, 43):
            assert kind.label in known[kind]


@pytest.mark.tshark
def test_payload_types_against_tshark():
    known = values()["isakmp.typepayload"]
    for kind in ikev2.PayloadType:
        if kind != 0 and kind in known and kind.label in PAYLOADS:
            assert PAYLOADS[kind.label] in known[kind]


@pytest.mark.tshark
@pytest.mark.parametrize(
    ("registry", "field"),
    [
        (ikev2.AuthMethod, "isakmp.auth.method"),
        (ikev2.HashAlgorithm, "isakmp.notify.data.signature_hash_algorithms"),
        (ikev2.ConfigurationAttribute, "isakmp.cfg.attr.type"),
        (ikev2.ConfigurationType, "isakmp.cfg.type"),
        (ikev2.TrafficSelectorType, "isakmp.ts.type"),
        (ikev2.ProtocolId, "isakmp.prop.protoid"),
        (ikev2.CertEncoding, "isakmp.cert.encoding"),
    ],
)
def test_other_names_are_those_of_tshark(registry, field):
    known = values()[field]
    for member in registry:
        if member in known:
            names = {normal(name).removesuffix("S") for name in known[member]}
            assert normal(member.label).removesuffix("S") in names
