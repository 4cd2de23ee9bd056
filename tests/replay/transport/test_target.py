import socket

import pytest

from ikeanalyze.replay.transport.target import Target, TargetError, parse_target


@pytest.mark.parametrize(
    ("text", "address", "port"),
    [
        ("127.0.0.1", "127.0.0.1", 500),
        ("192.168.3.4:1500", "192.168.3.4", 1500),
        ("::1", "::1", 500),
        ("[::1]", "::1", 500),
        ("[2001:DB8:0::1]:65535", "2001:db8::1", 65535),
        ("fe80::1%lo", "fe80::1%lo", 500),
        ("[fe80::1%lo]:4500", "fe80::1%lo", 4500),
    ],
)
def test_a_target_is_an_address_and_optionally_a_port(text, address, port):
    assert parse_target(text) == Target(address, port, 4500)


# one address inside and one just outside of each range that the registries of IANA call special
@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ("10.255.255.254", "11.0.0.1"),
        ("172.31.255.254", "172.32.0.1"),
        ("192.168.0.1", "192.169.0.1"),
        ("127.9.9.9", "128.0.0.1"),
        ("169.254.1.1", "169.255.1.1"),
        ("203.0.113.7", "203.0.114.7"),
        ("198.19.0.1", "198.20.0.1"),
        ("fd00::1", "2600::1"),
        ("2001:db8:ffff::1", "2001:db9::1"),
        ("::1", "::2"),
    ],
)
def test_only_private_addresses_are_allowed(inside, outside):
    parse_target(inside)
    with pytest.raises(TargetError, match="--allow-public-target"):
        parse_target(outside)
    assert parse_target(outside, any_target=True).address == outside


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "is not a target"),
        ("example.org", "is not a target"),
        ("127.0.0.1:", "is not a port"),
        ("127.0.0.1:0", "is not a port"),
        ("127.0.0.1:70000", "is not a port"),
        ("127.0.0.1:٣", "is not a port"),
        ("[::1", "write IPv6 with a port"),
        ("[::1]500", "write IPv6 with a port"),
        ("1.2.3", "is not a target"),
        ("224.0.0.1", "not the address of a single host"),
        ("ff02::1%lo", "not the address of a single host"),
        ("255.255.255.255", "not the address of a single host"),
        ("0.0.0.0", "not the address of a single host"),
        ("::", "not the address of a single host"),
        ("::ffff:10.0.0.1", "write it as IPv4: 10.0.0.1"),
        ("fe80::1", "needs its interface"),
        ("fe80::1%nothing", "unknown interface 'nothing'"),
        ("::1%lo", "only a link-local address has an interface"),
        ("[2001:db8::1%lo]:500", "only a link-local address has an interface"),
    ],
)
def test_malformed_targets_are_rejected(text, what):
    with pytest.raises(TargetError, match=what.replace("[", r"\[")):
        parse_target(text, any_target=True)


def test_what_it_tells():
    target = parse_target("[fe80::1%lo]:1500", nat_port=1501)
    assert (target.family, target.packed.hex()) == (socket.AF_INET6, "fe80" + 27 * "0" + "1")
    assert str(target) == "[fe80::1%lo]:1500"
    assert [target.port_of(500), target.port_of(4500)] == [1500, 1501]
    assert [target.has_non_esp_marker(500), target.has_non_esp_marker(4500)] == [False, True]
    assert parse_target("127.0.0.1:4500").has_non_esp_marker(500)


@pytest.mark.parametrize("text", ["169.254.169.254", "169.254.170.2:500", "100.100.100.200", "fd00:ec2::254"])
@pytest.mark.parametrize("any_target", [False, True])
def test_metadata_services_of_clouds_are_never_targets(text, any_target):
    with pytest.raises(TargetError, match="metadata service of a cloud"):
        parse_target(text, any_target=any_target)


@pytest.mark.parametrize("any_target", [False, True])
def test_the_broadcast_address_of_an_interface_is_never_a_target(any_target):
    """Of the loopback interface, which every machine has."""
    with pytest.raises(TargetError, match="broadcast address or prohibited route"):
        parse_target("127.255.255.255", any_target=any_target)


@pytest.mark.parametrize("text", ["10.0.0.255", "192.168.7.255:4500"])
def test_the_broadcast_address_of_most_networks_needs_a_confirmation(text):
    with pytest.raises(TargetError, match="broadcast address of most networks"):
        parse_target(text)
    assert parse_target(text, any_target=True).address == text.partition(":")[0]
