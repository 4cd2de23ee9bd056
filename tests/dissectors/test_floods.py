"""Floods cost the plugin work, time and memory in proportion to their packets.

Its work is counted in instructions of Lua, exactly. What Lua's own functions and tshark take besides shows in the
processor time, which varies, also where nothing is wrong.
"""

import re
from pathlib import Path

import pytest

from benchmarks.plugin import find_least, measure
from tests.dissectors.run_plugin import PLUGIN
from tests.floods.generate import FLOODS, GROWTH

#: Numbers of packets that take about as long as the start of tshark, or longer; `GROWTH` times as many are read too.
SMALL = {
    "half_open": 2_000,
    "fragments_of_one_message": 8_000,
    "fragments_again_after_shorter_pauses": 5_000,
    "cookie_rounds": 1_000,
    "responses_after_the_next_set_up": 2_000,
    "redirects_behind_one_nat": 2_000,
    "responder_spis_of_one_request": 2_000,
    "deletes_in_the_clear": 4_000,
    # tshark alone takes 2.5 times as long for 16,000 of these segments as for 8,000, and in proportion beyond
    "tcp_copies_of_one_ahead": 16_000,
}
LOAD = ("-X", "lua_script:plugin/ikex.lua", "-r", "capture")
STATISTICS = ("-z", "ikex,handshakes")
#: A filter that needs little of a message, one that needs every transmission, missing fragment and exchange, and the
#: statistics, which need the outcomes.
LITTLE = ("-2", "-Y", "ikex.retransmission == 1")
MUCH = ("-2", "-Y", "ikex.retransmission == 1 || ikex.fragment.missing == 1 || ikex.response_in == 1")
WORKS = {"little": LITTLE, "much": MUCH, "statistics": ("-q", *STATISTICS)}

COUNTED = 1_000
#: `GROWTH` times the packets may need so many times the instructions: what grows with the square of `COUNTED` packets
#: may need 4 % of what is in proportion to them. The ratio is not exactly `GROWTH`, because most captures begin with a
#: few other packets.
MOST_INSTRUCTIONS = 4.5

START = 100
#: `GROWTH` times the packets may take so many times the processor time, besides the start: the smaller flood may spend
#: a fifth of its time on what grows with the square.
MOST_TIME = 6.4
#: The same with a third, where tshark alone spends some.
MOST_TIME_OF = {"tcp_copies_of_one_ahead": 8}
KB_EACH = 24  # of a packet, or of a request and its response
#: Processor times vary where processes share a core and its caches: one of so many attempts must do.
ATTEMPTS = 6


def count_instructions(room, work):
    done = room.run("-n", *LOAD, *work, lua=[Path(__file__).with_name("count_instructions.lua")])
    assert done.status == 0, done.stderr
    return int(re.search(r"instructions of Lua: (\d+)", done.stderr)[1])


@pytest.mark.turns
@pytest.mark.parametrize("tshark", ["host", "forky"], indirect=True)
@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("name", SMALL)
def test_the_instructions_for_a_flood_are_in_proportion_to_its_packets(tshark, name, work):
    """Requests with other SPIs, each a new IKE SA; fragments of one message with other numbers (RFC 7383); and floods
    in which all messages belong to one exchange type of one IKE SA."""
    with tshark.room() as room:
        room.put("plugin", PLUGIN)
        room.put("capture", FLOODS[name].generate(COUNTED))
        small = count_instructions(room, WORKS[work])
        room.put("capture", FLOODS[name].generate(GROWTH * COUNTED))
        large = count_instructions(room, WORKS[work])
    assert COUNTED < small < large <= MOST_INSTRUCTIONS * small


@pytest.mark.turns
@pytest.mark.parametrize("tshark", ["host", "forky"], indirect=True)
@pytest.mark.parametrize("name", SMALL)
def test_the_time_and_memory_of_a_flood_are_in_proportion_to_its_packets(tshark, name):
    """A filter and the statistics together."""
    sizes = (START, SMALL[name], GROWTH * SMALL[name])
    runs = []
    with tshark.room() as room:
        room.put("plugin", PLUGIN)
        for _ in range(ATTEMPTS):
            runs.append([])
            for packets in sizes:
                room.put("capture", FLOODS[name].generate(packets))
                runs[-1].append(measure(room, *LOAD, *MUCH, *STATISTICS))
            start, small, large = map(find_least, zip(*runs, strict=True))
            most_seconds = start.seconds + MOST_TIME_OF.get(name, MOST_TIME) * (small.seconds - start.seconds)
            most_memory = start.peak + sizes[-1] * KB_EACH * 1000
            if large.seconds <= most_seconds and large.peak <= most_memory:
                return
    assert large.seconds <= most_seconds, runs
    assert large.peak <= most_memory, runs
