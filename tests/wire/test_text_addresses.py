from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.text import format_address


@pytest.mark.parametrize("text", ["192.0.2.1", "0.0.0.0", "::", "2001:db8::1:0:0:1", "fe80::1"])
def test_addresses_are_formatted_as_pythons_ipaddress_does(text):
    assert format_address(ip_address(text).packed) == text


@given(st.binary(max_size=20))
def test_only_4_and_16_bytes_are_addresses(data):
    assert (format_address(data) is None) == (len(data) not in (4, 16))
