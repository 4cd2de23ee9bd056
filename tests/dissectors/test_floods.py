"""Floods cost the plugin time and memory in proportion to their packets."""

import pytest

from benchmarks.plugin import find_least, measure
from tests.dissectors.run_plugin import PLUGIN
from tests.floods.generate import FLOODS

pytestmark = pytest.mark.alone

START = 100
#: Numbers of packets that take about as long as the start of tshark, or longer. A test reads four times as many, too.
SMALL = {
    "half_open": 4_000,
    "fragments_of_one_message": 15_000,
    "cookie_rounds": 4_000,
    "redirects_behind_one_nat": 4_000,
    "responder_spis_of_one_request": 4_000,
    "deletes_in_the_clear": 8_000,
}
#: A filter that needs little of a message, one that needs every transmission, missing fragment and exchange, and the
#: statistics, which need the outcomes.
WORKS = {
    "little": ("-2", "-Y", "ikex.retransmission == 1"),
    "much": ("-2", "-Y", "ikex.retransmission == 1 || ikex.fragment.missing == 1 || ikex.response_in == 1"),
    "statistics": ("-q", "-z", "ikex,handshakes"),
}
KB_EACH = 24  # of a packet, or of a request and its response


@pytest.mark.parametrize("tshark", ["host", "forky"], indirect=True)
@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
@pytest.mark.parametrize("name", SMALL)
def test_four_times_the_packets_of_a_flood_take_four_times_the_time(tshark, name, work):
    """Requests with other SPIs, each a new IKE SA; fragments of one message with other numbers (RFC 7383); and floods
    in which all messages belong to one exchange type of one IKE SA."""
    with tshark.room() as room:
        room.put("plugin", PLUGIN)

        def measure_flood(packets, runs=1):
            capture = str(room.put("capture", FLOODS[name].generate(packets)))
            return find_least(
                [measure(room, "-X", "lua_script:plugin/ikex.lua", "-r", capture, *work) for _ in range(runs)]
            )

        start, small = measure_flood(START, runs=3), measure_flood(SMALL[name], runs=2)
        packets = 4 * SMALL[name]
        most_seconds = start.seconds + 8 * (small.seconds - start.seconds)  # quadratic: 16 times
        most_memory = start.peak + packets * KB_EACH * 1000
        large = measure_flood(packets)
        if large.seconds > most_seconds or large.peak > most_memory:  # both vary on a busy machine
            large = find_least([large, measure_flood(packets, runs=2)])
    assert large.seconds <= most_seconds
    assert large.peak <= most_memory
