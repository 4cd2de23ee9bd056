"""Floods cost the plugin time and memory in proportion to their packets."""

import pytest

from benchmarks.plugin import measure
from tests.dissectors.run_plugin import PLUGIN
from tests.floods.generate import FLOODS

pytestmark = pytest.mark.alone

START, SMALL, LARGE = 100, 4_000, 16_000
#: A filter that needs little of a message, one that needs every transmission, missing fragment and exchange, and the
#: statistics, which need the outcomes.
WORKS = {
    "little": ("-2", "-Y", "ikex.retransmission == 1"),
    "much": ("-2", "-Y", "ikex.retransmission == 1 || ikex.fragment.missing == 1 || ikex.response_in == 1"),
    "statistics": ("-q", "-z", "ikex,handshakes"),
}
KB_EACH = 24  # of a packet, or of a request and its response
NAMES = (
    "half_open",
    "fragments_of_one_message",
    "cookie_rounds",
    "redirects_behind_one_nat",
    "responder_spis_of_one_request",
    "deletes_in_the_clear",
)


@pytest.mark.parametrize("tshark", ["host", "forky"], indirect=True)
@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
@pytest.mark.parametrize("name", NAMES)
def test_four_times_the_packets_of_a_flood_take_four_times_the_time(tshark, name, work):
    """Requests with other SPIs, each a new IKE SA; fragments of one message with other numbers (RFC 7383); and floods
    in which all messages belong to one exchange type of one IKE SA."""
    with tshark.room() as room:
        room.put("plugin", PLUGIN)

        def measure_flood(packets):
            capture = str(room.put("capture", FLOODS[name].generate(packets)))
            return measure(room, "-X", "lua_script:plugin/ikex.lua", "-r", capture, *work)

        start, small, large = (measure_flood(packets) for packets in (START, SMALL, LARGE))
    # quadratic: 16 times; the start, most of the time of a cheap flood, does not always take the same time
    assert large.seconds - start.seconds <= 8 * (small.seconds - start.seconds) + start.seconds
    assert large.peak - start.peak <= LARGE * KB_EACH * 1000
