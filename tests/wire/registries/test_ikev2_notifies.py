import pytest

from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2_notifies import (
    GatewayIdentity,
    IpcompTransform,
    NotifyType,
    RohcAttribute,
)
from tests.wire.registries.oracle import normal, values

#: Numbers that tshark names wrongly, in one version or another, or did before they were renamed.
NOT_ASKED = {
    46,  # "CHILD_SA_NOT_FOUND" a second time
    16429,  # SENDER_REQUEST_ID was the draft's name
    16440,  # "IP4_ALLOWED" a second time
}


def test_every_number_that_iana_has():
    errors = [kind for kind in NotifyType if kind < 16384]
    assert len(errors) == 25
    assert sorted(kind for kind in NotifyType if kind >= 16384) == list(range(16384, 16448))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (14, "NO_PROPOSAL_CHOSEN"),
        (17, "INVALID_KE_PAYLOAD"),
        (42, "USE_ASSIGNED_HoA"),
        (46, "AUTHORIZATION_FAILED"),
        (47, "STATE_NOT_FOUND"),
        (16430, "IKEV2_FRAGMENTATION_SUPPORTED"),
        (16438, "INTERMEDIATE_EXCHANGE_SUPPORTED"),
        (16440, "IP6_ALLOWED"),
        (16441, "ADDITIONAL_KEY_EXCHANGE"),
        (16446, "PPK_IDENTITY_KEY"),
        (16448, "16448"),
        (15, "15"),
    ],
)
def test_notify_types_have_names(kind, name):
    assert get_name(NotifyType, kind) == name


@pytest.mark.tshark
def test_names_against_tshark():
    known = values()["isakmp.notify.msgtype"]
    requested = 0
    for kind in NotifyType:
        names = [name for name in known.get(kind, []) if not name.upper().startswith("RESERVED")]
        if names and kind not in NOT_ASKED and (kind < 16384 or kind <= 16431 or kind in known):
            assert normal(kind.label) in {normal(name) for name in names}, kind
            requested += 1
    assert requested > 60


@pytest.mark.tshark
@pytest.mark.parametrize(
    ("registry", "field"),
    [
        (IpcompTransform, "isakmp.notify.data.ipcomp.transform_id"),
        (GatewayIdentity, "isakmp.notify.data.redirect.gw_ident.type"),
    ],
)
def test_data_against_tshark(registry, field):
    known = values()[field]
    for member in registry:
        assert any(normal(name) in normal(member.label) for name in known[member])


def test_rohc_attributes():
    assert get_name(RohcAttribute, 5) == "MRRU"
