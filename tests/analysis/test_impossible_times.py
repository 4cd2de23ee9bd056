"""Times that no clock meant, as a damaged file has them: 292 years before or after 1970, and far beyond."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random

import dpkt
import pytest

from ikeanalyze import Analysis
from tests.analysis.analyse_captures import analyse
from tests.craft import SECOND, Interface, Packet, pcapng
from tests.paths import CAPTURES

#: The usual clock, and those of damaged interface blocks.
INTERFACES = (Interface(), Interface(tsoffset=2**63 - 1), Interface(tsoffset=-(2**63)))
LATEST, EARLIEST = 1, 2


def recorded(name: str) -> list[Packet]:
    path: Path = CAPTURES / name
    with path.open("rb") as file:
        kind = dpkt.pcapng if path.suffix == ".pcapng" else dpkt.pcap
        return [Packet(round(time * 10**6) * 1000, data) for time, data in kind.Reader(file)]


def with_times(packets: list[Packet], clocks: dict[int, int]) -> Analysis:
    """The analysis of packets of which some, by number, have the time of another clock."""
    moved = list(packets)
    for number, clock in clocks.items():
        seconds = INTERFACES[clock].tsoffset
        assert seconds is not None
        moved[number - 1] = replace(packets[number - 1], time_ns=seconds * SECOND, interface=clock)
    return analyse(pcapng(moved, interfaces=INTERFACES))


def test_the_request_at_the_end_of_time_and_its_radius_request_at_the_beginning():
    analysis = with_times(recorded("eap-md5-radius.pcapng"), {9: LATEST, 10: EARLIEST})
    assert any("time spans with them are meaningless" in warning.message for warning in analysis.warnings)
    assert analysis.captures[0].accounting["ike"] == 10


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["eap-md5-radius.pcapng", "psk-classic.pcap", "ikev1-xauth.pcap"])
def test_each_packet_may_have_any_time(name):
    packets = recorded(name)[:30]
    for number, clock in product(range(1, len(packets) + 1), (LATEST, EARLIEST)):
        with_times(packets, {number: clock})


@pytest.mark.exhaustive
def test_several_packets_may_have_any_time():
    rng = Random(1)
    packets = recorded("eap-md5-radius.pcapng")
    for _ in range(100):
        numbers = rng.sample(range(1, len(packets) + 1), rng.randrange(2, 8))
        with_times(packets, {number: rng.choice((LATEST, EARLIEST)) for number in numbers})
