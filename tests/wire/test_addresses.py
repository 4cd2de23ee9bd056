from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.addresses import address_text


@pytest.mark.parametrize("text", ["192.0.2.1", "0.0.0.0", "::", "2001:db8::1:0:0:1", "fe80::1"])
def test_addresses(text):
    assert address_text(ip_address(text).packed) == text


@given(st.binary(max_size=20))
def test_other_lengths(data):
    assert (address_text(data) is None) == (len(data) not in (4, 16))
