"""Which of recorded proposals can be offered, and what a responder may choose of them."""

import pytest
from msgspec.structs import replace

from ikeanalyze.replay.initiator.interface import CannotReplayError
from ikeanalyze.replay.initiator.negotiation import is_offered, list_key_exchange_methods, select_proposals
from ikeanalyze.wire.ikev2.proposals import Proposal, Transform, TransformAttributeValue
from tests.replay.driving import CBC, GCM, SHA2_256, SHA2_256_128, proposal

X25519, X448, ECP_256, MODP_8192, ML_KEM_512, ML_KEM_768 = 31, 32, 19, 18, 35, 36


def ke(method: int) -> Transform:
    return Transform(4, method, ())


def made(*transforms: Transform, number: int = 1) -> Proposal:
    return Proposal(number, 1, b"", transforms)


def test_what_can_be_done_stays_as_it_is():
    recorded = [proposal(X25519, ML_KEM_768), replace(proposal(ECP_256, aead=False), number=2)]
    proposals = select_proposals(recorded, X25519)
    assert proposals.proposals == tuple(recorded)
    assert (proposals.key_exchange, proposals.left_out) == (X25519, ())


def test_alternatives_that_cannot_be_done_are_left_out_and_told():
    recorded = made(
        GCM, SHA2_256, ke(MODP_8192), ke(X25519), Transform(6, ML_KEM_512, ()), Transform(6, ML_KEM_768, ())
    )
    proposals = select_proposals([recorded], MODP_8192)
    assert proposals.proposals == (made(GCM, SHA2_256, ke(X25519), Transform(6, ML_KEM_768, ())),)
    assert proposals.key_exchange == X25519
    assert [line.partition(" ")[0] for line in proposals.left_out] == ["key", "the"]
    assert "MODP-8192" in proposals.left_out[0]
    assert "ML-KEM-512" in proposals.left_out[1]


def test_a_proposal_of_which_a_type_is_lost_goes_as_a_whole():
    recorded = [proposal(MODP_8192), replace(proposal(X448), number=2), replace(proposal(ECP_256), number=3)]
    proposals = select_proposals(recorded, MODP_8192).proposals
    assert proposals == (
        proposal(X448),
        replace(proposal(ECP_256), number=2),
    )  # RFC 7296, 3.3.1: from 1, without a gap


def test_more_transforms_than_can_be_counted():
    recorded = made(GCM, SHA2_256, *(ke(X25519) for _ in range(254)))
    with pytest.raises(CannotReplayError, match="more than 255 transforms"):
        select_proposals([recorded], X25519)


@pytest.mark.parametrize(
    "transform",
    [
        Transform(1, 11, ()),  # NULL
        Transform(1, 99, ()),
        Transform(1, 12, ()),  # AES without the length of its key
        Transform(1, 12, (TransformAttributeValue(14, 100),)),
        Transform(2, 9, ()),
        Transform(3, 9, ()),
        Transform(99, 1, ()),
    ],
)
def test_a_proposal_without_supported_algorithms_is_rejected(transform):
    others = [item for item in (GCM, SHA2_256, ke(X25519)) if item.type != transform.type]
    with pytest.raises(CannotReplayError, match="none of the recorded proposals can be offered: "):
        select_proposals([made(*others, transform)], X25519)


def test_a_request_without_proposals_cannot_be_replayed():
    with pytest.raises(CannotReplayError, match="the request has none"):
        select_proposals([], X25519)


def test_only_offered_proposals_may_be_chosen():
    optional = Transform(6, 0, ())
    offered = [
        made(GCM, SHA2_256, ke(X25519), ke(X448), Transform(6, ML_KEM_768, ()), optional),
        made(CBC, SHA2_256_128, SHA2_256, ke(ECP_256), number=2),
    ]
    good = [
        made(GCM, SHA2_256, ke(X448), Transform(6, ML_KEM_768, ())),
        made(GCM, SHA2_256, ke(X448), optional),
        made(GCM, SHA2_256, ke(X448)),
        made(ke(ECP_256), CBC, SHA2_256_128, SHA2_256, number=2),
    ]
    assert all(is_offered(item, offered) for item in good)
    bad = [
        made(GCM, SHA2_256, ke(ECP_256)),
        made(GCM, ke(X448)),
        made(GCM, SHA2_256, ke(X448), ke(X25519)),
        made(CBC, SHA2_256_128, SHA2_256, ke(ECP_256)),
        made(CBC, SHA2_256_128, SHA2_256, ke(ECP_256), number=3),
        Proposal(1, 3, b"", good[0].transforms),
        made(Transform(1, 20, (TransformAttributeValue(14, 128),)), SHA2_256, ke(X448)),
    ]
    assert not any(is_offered(item, offered) for item in bad)
    assert list_key_exchange_methods(offered) == [X25519, X448, ECP_256]
