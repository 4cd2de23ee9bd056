from dataclasses import replace
from ipaddress import ip_address
from random import Random

import pytest

from ikeanalyze.replay.session.verbatim import UdpEndpoint, renew_message
from tests.craft import Handshake, ike
from tests.replay.recorded_messages import hybrid, recorded

OURS, THEIRS = ("198.51.100.7", 61000), ("203.0.113.9", 1500)
ENDS = [UdpEndpoint(ip_address(address).packed, port) for address, port in (OURS, THEIRS)]


def random_bytes(seed=1):
    return Random(seed).randbytes


def test_what_must_be_new_is_new():
    first = hybrid().first
    done = renew_message(first, *ENDS, random_bytes())
    assert done.changed == ("SPIi", "nonce", "NAT_DETECTION_SOURCE_IP", "NAT_DETECTION_DESTINATION_IP")
    spi_i = random_bytes()(8)
    assert done.data[:8] == spi_i
    source, destination = (ike.nat_hash(spi_i, bytes(8), *end) for end in (OURS, THEIRS))
    assert source in done.data
    assert destination in done.data
    # everything else is bit by bit as it was: put the old values back
    old_source = ike.nat_hash(first.data[:8], bytes(8), *first.source)
    old_destination = ike.nat_hash(first.data[:8], bytes(8), *first.destination)
    back = done.data.replace(source, old_source).replace(destination, old_destination)
    changed = [at for at in range(len(back)) if back[at] != first.data[at]]
    nonce = next(at for at in changed if at >= 28)
    assert all(at < 8 or nonce <= at < nonce + 32 for at in changed)
    assert len(done.data) == len(first.data)


def test_another_run_is_another_one():
    first = hybrid().first
    one, other = renew_message(first, *ENDS, random_bytes(1)), renew_message(first, *ENDS, random_bytes(2))
    assert one.data[:8] != other.data[:8]


@pytest.mark.parametrize("place", [1, 2, 3, 7, 8])
def test_other_messages_stay_as_they_are(place):
    message = hybrid().messages[place]
    done = renew_message(message, *ENDS, random_bytes())
    assert (done.data, done.changed) == (message.data, ())


def test_a_nat_detection_hash_that_was_wrong_stays_wrong():
    first = hybrid().first
    wrong = replace(first, source=("192.0.2.99", 500))  # who recorded it saw another address
    done = renew_message(wrong, *ENDS, random_bytes())
    assert done.changed == ("SPIi", "nonce", "NAT_DETECTION_DESTINATION_IP")
    assert ike.nat_hash(first.data[:8], bytes(8), *first.source) in done.data


def test_whatever_is_recorded_never_raises():
    message = recorded(Handshake(1).init()[0], 0, 1)
    for cut in range(len(message.data)):
        done = renew_message(replace(message, data=message.data[:cut]), *ENDS, random_bytes())
        assert len(done.data) == cut
