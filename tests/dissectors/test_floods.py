"""Floods cost the plugin time and memory in proportion to their packets.

Processor times are compared, not times by the clock, so that other tests may run meanwhile.
"""

import pytest

from benchmarks.plugin import find_least, measure
from tests.dissectors.run_plugin import PLUGIN
from tests.floods.generate import FLOODS

START = 100
#: Numbers of packets that take about as long as the start of tshark, or longer. With them, no part of the time that
#: grows with the square may be longer than half of the part that is in proportion.
SMALL = {
    "half_open": 4_000,
    "fragments_of_one_message": 15_000,
    "fragments_again_after_shorter_pauses": 10_000,
    "cookie_rounds": 2_000,
    "responses_after_the_next_set_up": 4_000,
    "redirects_behind_one_nat": 4_000,
    "responder_spis_of_one_request": 4_000,
    "deletes_in_the_clear": 8_000,
    "tcp_copies_of_one_ahead": 8_000,
}
#: A filter that needs little of a message, one that needs every transmission, missing fragment and exchange, and the
#: statistics, which need the outcomes.
WORKS = {
    "little": ("-2", "-Y", "ikex.retransmission == 1"),
    "much": ("-2", "-Y", "ikex.retransmission == 1 || ikex.fragment.missing == 1 || ikex.response_in == 1"),
    "statistics": ("-q", "-z", "ikex,handshakes"),
}
KB_EACH = 24  # of a packet, or of a request and its response
#: Processor times vary where processes share a core and its caches: one of so many attempts must do.
ATTEMPTS = 6


def measure_flood(room, name, packets, work):
    capture = str(room.put("capture", FLOODS[name].generate(packets)))
    return measure(room, "-X", "lua_script:plugin/ikex.lua", "-r", capture, *work)


def choose_sizes(name, work):
    """The smaller number of packets to compare, and how many times as many the larger one is."""
    if work == "statistics":
        return SMALL[name], 4  # half the packets would take too little time to measure
    if name == "tcp_copies_of_one_ahead":
        # tshark alone takes 2.5 times as long for 16,000 of these segments as for 8,000, and in proportion beyond
        return 2 * SMALL[name], 2
    return SMALL[name] // 2, 4  # a filter reads the capture twice


def find_limit(name, once, growth):
    """How many times as long `growth` times the packets may take: `growth` is in proportion, its square quadratic."""
    quadratic = once / SMALL[name] / 2  # times the part that is in proportion
    return (growth + growth**2 * quadratic) / (1 + quadratic)


@pytest.mark.turns
@pytest.mark.parametrize("tshark", ["host", "forky"], indirect=True)
@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("name", SMALL)
def test_the_time_of_a_flood_is_in_proportion_to_its_packets(tshark, name, work):
    """Requests with other SPIs, each a new IKE SA; fragments of one message with other numbers (RFC 7383); and floods
    in which all messages belong to one exchange type of one IKE SA."""
    once, growth = choose_sizes(name, work)
    limit = find_limit(name, once, growth)
    sizes = (START, once, growth * once)
    runs = []
    with tshark.room() as room:
        room.put("plugin", PLUGIN)
        for _ in range(ATTEMPTS):
            runs.append([measure_flood(room, name, packets, WORKS[work]) for packets in sizes])
            start, small, large = map(find_least, zip(*runs, strict=True))
            most_seconds = start.seconds + limit * (small.seconds - start.seconds)
            most_memory = start.peak + sizes[-1] * KB_EACH * 1000
            if large.seconds <= most_seconds and large.peak <= most_memory:
                return
    assert large.seconds <= most_seconds, runs
    assert large.peak <= most_memory, runs
