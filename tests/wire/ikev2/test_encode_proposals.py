"""SA payloads: as craft builds them, and whatever was read is written again. Recorded ones: `test_encoding`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.ikev2.encode import encode_sa
from ikeanalyze.wire.ikev2.proposals import parse_sa
from tests.craft import ike
from tests.craft.ike import Proposal, Transform
from tests.wire.dissected import clear, dissected

transforms = st.lists(
    st.builds(
        Transform,
        st.integers(1, 255),
        st.integers(0, 0xFFFF),
        st.none() | st.integers(0, 0xFFFF),
        # a long attribute behind the key length
        st.sampled_from([b"", b"\0\x63\0\3abc", b"\x80\x63\0\1"]),
    ),
    max_size=20,
)
proposals = st.lists(
    st.builds(Proposal, transforms, st.integers(0, 255), st.binary(max_size=8), st.integers(0, 255)),
    max_size=5,
)


@given(proposals)
def test_encoding_inverts_parsing(listed):
    kind, body = ike.sa(listed)
    read = parse_sa(body)
    assert read.error is None
    assert encode_sa(read.proposals) == (kind, body)


@pytest.mark.tshark
def test_tshark_decodes_encoded_proposals():
    _, body = ike.sa([ike.CLASSIC, Proposal(ike.HYBRID.transforms, 3, b"1234")])
    (result,) = dissected(
        [clear([encode_sa(parse_sa(body).proposals)])],
        "isakmp.prop.number", "isakmp.prop.transforms", "isakmp.spi", "isakmp.tf.id.encr", "_ws.malformed",
    )  # fmt: skip
    assert result["isakmp.prop.number"] == ["1", "2"]
    assert result["isakmp.prop.transforms"] == ["4", "4"]
    assert result["isakmp.spi"] == [b"1234".hex()]
    assert result["isakmp.tf.id.encr"] == ["12", "20"]
    assert result["_ws.malformed"] == []
