import itertools
import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import polars as pl
import pytest

from ikeanalyze.render.ladder.diagram import (
    FILE_WIDTH,
    PAGE_WIDTH,
    LadderLayout,
    _choose_tick_step,
    _spread_out,
    draw_ladder,
)
from ikeanalyze.render.ladder.model import build_ladder
from ikeanalyze.render.report import selection
from tests.analysis.analyse_captures import analyse
from tests.craft import MS, Handshake, Trace
from tests.render.analysis_examples import analysis

SVG = "{http://www.w3.org/2000/svg}"


def drawn(number: int, layout: LadderLayout, **more) -> ET.Element:
    return ET.fromstring(
        draw_ladder(build_ladder(selection.select_handshake(analysis(range(1, 9)), number)), layout, **more)
    )


def texts(root: ET.Element) -> list[str]:
    return [node.text or "" for node in root.iter(f"{SVG}text")]


def rungs(root: ET.Element) -> list[ET.Element]:
    return [node for node in root.iter(f"{SVG}g") if node.get("class") == "rung"]


def arrow_at(rung: ET.Element) -> float:
    result = re.match(r"translate\(0 ([\d.]+)\)", rung.find(f"{SVG}g").get("transform"))
    return float(result[1])


@pytest.mark.parametrize("number", range(1, 9))
@pytest.mark.parametrize("layout", LadderLayout)
def test_an_arrow_per_message(number, layout):
    messages = selection.select_handshake(analysis(range(1, 9)), number).messages
    assert len(rungs(drawn(number, layout))) == messages.height


def test_arrows_are_at_their_times():
    """Arrows of the set-up stand where their time is: 0, 2.345678, 5, 7.5, 9.25 and 12.75 ms."""
    places = [arrow_at(rung) for rung in rungs(drawn(1, LadderLayout.TRUE))][:6]
    scale = (places[5] - places[0]) / 12.75
    expected = [places[0] + ms * scale for ms in (0, 2.345678, 5.0, 7.5, 9.25, 12.75)]
    assert places == pytest.approx(expected, abs=0.2)


def test_even_spacing_keeps_the_order():
    places = [arrow_at(rung) for rung in rungs(drawn(1, LadderLayout.EVEN))]
    assert all(later - earlier >= 30 for earlier, later in itertools.pairwise(places))


def test_both_layouts_are_those_of_their_own():
    both, even, true = (drawn(2, layout) for layout in (LadderLayout.BOTH, LadderLayout.EVEN, LadderLayout.TRUE))
    for rung, one, other in zip(*map(rungs, (both, even, true)), strict=True):
        moved = rung.find(f"{SVG}g").get("data-v")
        forms = (one.find(f"{SVG}g").get("transform"), other.find(f"{SVG}g").get("transform"))
        assert moved is None or moved.split("|") == list(forms)


def test_labels_are_next_to_the_arrows():
    reported = " ".join(texts(drawn(1, LadderLayout.EVEN)))
    assert "1,406 bytes in 2 frames, 2/2 fragments seen" in reported
    assert "after the set-up" in reported
    assert "INVALID_KE_PAYLOAD" in " ".join(texts(drawn(3, LadderLayout.EVEN)))
    assert "no response: it was lost, or its response" in texts(drawn(3, LadderLayout.EVEN))
    assert "AAA server" in texts(drawn(2, LadderLayout.EVEN))


@pytest.mark.parametrize("layout", [LadderLayout.EVEN, LadderLayout.TRUE])
@pytest.mark.parametrize("cut", [0, 2, 3, 4])
def test_a_capture_that_begins_after_the_set_up(layout, cut):
    """The set-up takes four messages: what is left of them stands above the rule, two later ones below."""
    trace, handshake = Trace(), Handshake(1)
    trace.play([*handshake.setup(), *handshake.informational()])
    trace.drop(trace.packets[:cut])
    root = ET.fromstring(draw_ladder(build_ladder(selection.select_handshake(analyse(trace), 1)), layout))
    (rule,) = [group for group in root.iter(f"{SVG}g") if "after the set-up" in [text.text for text in group]]
    place = float(re.match(r"translate\(0 ([\d.]+)\)", rule.get("transform"))[1])
    assert [arrow_at(rung) < place for rung in rungs(root)] == [True] * (4 - cut) + [False] * 2
    # below the rule, only messages without a set-up stand where their time is
    assert ("not to scale" in texts(root)) == (layout is LadderLayout.TRUE and cut < 4)


def test_times_without_a_set_up_are_on_the_axis():
    trace, handshake = Trace(), Handshake(1)
    handshake.setup()
    for time, message in zip((0, 20, 100, 130), [*handshake.informational(), *handshake.informational()], strict=True):
        trace.message(time * MS, message)
    ladder = build_ladder(selection.select_handshake(analyse(trace), 1))
    places = [arrow_at(rung) for rung in rungs(ET.fromstring(draw_ladder(ladder, LadderLayout.TRUE)))]
    scale = (places[3] - places[0]) / 130
    assert places == pytest.approx([places[0] + ms * scale for ms in (0, 20, 100, 130)], abs=0.2)


def test_payloads_are_labels():
    assert any("KE(ML-KEM-768" in text for text in texts(drawn(6, LadderLayout.EVEN)))


@pytest.mark.parametrize("layout", [LadderLayout.EVEN, LadderLayout.TRUE])
def test_a_file_is_not_wider_than_its_page(layout):
    root = drawn(6, layout, width=FILE_WIDTH)
    assert root.get("viewBox").startswith(f"0 0 {FILE_WIDTH} ")
    for node in root.iter(f"{SVG}text"):
        if node.get("text-anchor") is None:
            letter = 0.602 if "Mono" in node.get("font-family", "") else 0.55
            width = len(node.text or "") * float(node.get("font-size")) * letter
            assert float(node.get("x")) + width <= FILE_WIDTH + 2, node.text


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8:1234:5678:9abc:def0:1234:5678"])
def test_a_phone_shows_both_hosts_and_not_what_stands_beside(address):
    a = selection.select_handshake(analysis(), 1)
    a = replace(a, handshakes=a.handshakes.with_columns(responder_address=pl.lit(address)))
    root = ET.fromstring(draw_ladder(build_ladder(a), LadderLayout.BOTH))
    boxes = [float(box.get("x")) + float(box.get("width")) for box in root.iter(f"{SVG}rect")]
    assert max(boxes) <= float(root.get("width")) < max(boxes) + 3


@pytest.mark.parametrize("layout", LadderLayout)
@pytest.mark.parametrize("width", [FILE_WIDTH, PAGE_WIDTH])
@pytest.mark.parametrize(("number", "hosts"), [(1, 2), (2, 3)])
def test_boxes_of_long_addresses_stand_apart(number, hosts, width, layout):
    """Addresses as long as they get are in two lines, each whole, above the first message."""
    a = selection.select_handshake(analysis(), number)
    long = {
        f"{host}_address": f"2001:db8:1234:5678:9abc:def0:1234:567{i}"
        for i, host in enumerate(("initiator", "responder", "aaa")[:hosts])
    }
    a = replace(a, handshakes=a.handshakes.with_columns(**{name: pl.lit(value) for name, value in long.items()}))
    root = ET.fromstring(draw_ladder(build_ladder(a), layout, width=width))
    boxes = [
        (float(box.get("x")), float(box.get("x")) + float(box.get("width")), 3 + float(box.get("height")))
        for box in root.iter(f"{SVG}rect")
    ]
    assert len(boxes) == hosts
    assert all(value[1] < other[0] for value, other in itertools.pairwise(boxes))
    assert boxes[0][0] > 0
    assert boxes[-1][1] < width
    reported = [node for node in root.iter(f"{SVG}text") if "Mono" in node.get("font-family", "")][: 2 * hosts]
    assert ["".join(node.text for node in reported[i : i + 2]) for i in range(0, 2 * hosts, 2)] == list(long.values())
    assert max(float(node.get("y")) for node in reported) < boxes[0][2] < arrow_at(rungs(root)[0])


def test_short_addresses_stay_in_a_line():
    a = selection.select_handshake(analysis(), 1)
    assert "192.0.2.1" in texts(ET.fromstring(draw_ladder(build_ladder(a), LadderLayout.EVEN)))
    first, second = pl.lit("2001:db8::1234:5678"), pl.lit("2001:db8:1:2::9")
    a = replace(a, handshakes=a.handshakes.with_columns(initiator_address=first, responder_address=second))
    assert {"2001:db8::1234:5678", "2001:db8:1:2::9"} < set(
        texts(ET.fromstring(draw_ladder(build_ladder(a), LadderLayout.EVEN)))
    )


def test_peer_text_is_escaped():
    bad = "</text><script>alert(1)</script>&<![CDATA["
    a = selection.select_handshake(analysis(), 1)
    a = replace(
        a,
        messages=a.messages.with_columns(pl.lit([bad, '"onload="x']).alias("payloads")),
        handshakes=a.handshakes.with_columns(pl.lit(bad).alias("initiator_address"), pl.lit('"' + bad).alias("reason")),
    )
    svg = draw_ladder(build_ladder(a), LadderLayout.BOTH)
    root = ET.fromstring(svg)  # is well-formed
    assert not list(root.iter(f"{SVG}script"))
    assert "<script" not in svg
    assert not [name for node in root.iter() for name in node.attrib if name.lower().startswith("on")]


def test_a_handshake_without_messages_has_a_diagram():
    a = selection.select_handshake(analysis(), 1)
    root = ET.fromstring(draw_ladder(build_ladder(replace(a, messages=a.messages.head(0))), LadderLayout.BOTH))
    assert rungs(root) == []


def test_labels_are_spread_until_they_do_not_overlap():
    assert _spread_out([0, 100, 200], [20, 20, 20], 0) == [0, 100, 200]
    assert _spread_out([100, 100, 100], [20, 20, 20], 0) == [80, 100, 120]  # around where they want to be
    assert _spread_out([0, 0], [20, 20], 0) == [0, 20]  # none above the top
    assert _spread_out([10, 15, 90, 92], [20, 20, 20, 20], 0) == pytest.approx([2.5, 22.5, 81, 101])


def test_steps_of_an_axis():
    assert [_choose_tick_step(least) for least in (0.0011, 0.3, 1, 3, 7, 12, 400)] == pytest.approx(
        [0.002, 0.5, 1, 5, 10, 20, 500]
    )
