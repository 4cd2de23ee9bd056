from random import Random

from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.radius import parse_radius
from tests.craft import eap, radius
from tests.wire.recorded import radius_packets

NAME = "eap-md5-radius"


def request(**options):
    return radius.access_request(9, eap.eap(2, 1, 1, b"user@example.org"), Random(1), **options)


def test_the_recorded_conversation_is_parsed():
    views = [parse_radius(data) for _, data in radius_packets(NAME)]
    assert [view.code for view in views] == [1, 11, 1, 2]
    assert all(view.error is None for view in views)
    assert views[0].identifier == views[1].identifier
    assert views[1].state is not None
    assert views[1].state == views[2].state
    assert all(view.eap_message for view in views)
    assert len({view.authenticator for view in views}) == 4


def test_stations_and_address():
    more = [(4, bytes([192, 0, 2, 2])), (30, b"192.0.2.2[4500]"), (31, b"192.0.2.1[4500]")]
    view = parse_radius(request(more=more, state=b"state"))
    assert (view.calling_station_id, view.called_station_id) == ("192.0.2.1[4500]", "192.0.2.2[4500]")
    assert (view.nas_ip, view.state, view.code, view.identifier) == ("192.0.2.2", b"state", 1, 9)
    assert parse_radius(request(more=[(95, bytes(15) + b"\x01")])).nas_ip == "::1"
    assert parse_radius(request(more=[(4, b"odd")])).nas_ip is None


def test_a_proxy_leaves_its_state():
    assert not parse_radius(request()).proxied
    assert parse_radius(request(more=[(33, b"1")])).proxied


def test_long_eap_is_put_together():
    packet = eap.eap(2, 1, 13, bytes(1000))
    view = parse_radius(radius.access_request(1, packet, Random(1)))
    assert view.eap_message == packet


def test_no_user_name_and_no_password_is_kept():
    data = radius.access_request(1, eap.eap(2, 1, 13), Random(1), user=b"nobody-knows", more=[(2, b"hidden-password!")])
    assert "nobody-knows" not in repr(parse_radius(data))
    assert "hidden" not in repr(parse_radius(data))


def test_bytes_behind_the_packet_are_padding():
    assert parse_radius(request() + b"\x4f\x04zz") == parse_radius(request())


def test_truncated_packets_have_an_error():
    whole = request(state=b"state")
    for size in range(len(whole)):
        view = parse_radius(whole[:size])
        assert view.error is not None
        assert view.code == (1 if size >= 20 else 0)


@given(st.binary(max_size=60))
def test_random_bytes_raise_nothing(data):
    parse_radius(data)
    parse_radius(bytes([1, 1, 0, min(20 + len(data), 255)]) + bytes(16) + data)
