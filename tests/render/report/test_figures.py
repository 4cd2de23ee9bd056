"""The figures of a report say what the document says."""

import re
from collections.abc import Iterator
from dataclasses import replace
from xml.etree import ElementTree as ET

import polars as pl
import pytest

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.render.core.figures.style import PAGE, SINGLE
from ikeanalyze.render.report import document
from ikeanalyze.render.report.figures import make_figures
from tests.paths import CAPTURES
from tests.render.analysis_examples import analysis


def figures(a):
    return {figure.name: figure for figure in make_figures(a)}


@pytest.fixture(scope="module")
def eap():
    return read_captures(CAPTURES / "eap-md5-radius.pcapng", ReadOptions(keys=CAPTURES / "eap-md5-radius.keys.json"))


def test_one_handshake_has_no_distribution(eap):
    assert set(figures(eap)) == {"setup-parts", "link-bytes", "payload-bytes", "round-trips"}


def test_several_handshakes_have_figures_of_distributions(eap):
    assert set(figures(read_captures(CAPTURES / "loss20-classic.pcap"))) == {
        "setup-parts",
        "link-bytes",
        "round-trips",
        "setup-density",
        "setup-cumulative",
        "bytes-retransmissions",
    }


def test_without_handshakes_there_are_no_figures():
    assert figures(analysis([])) == {}
    assert set(figures(analysis([4]))) == {"link-bytes"}  # never answered


def test_bytes_by_link_are_those_of_the_links(eap):
    numbers = figures(eap)["link-bytes"].numbers
    links = document.build_report(eap)["handshakes"][0]["links"]
    assert [(row[0], row[3]) for row in numbers.rows] == [
        ("initiator → responder", f"{links[0]['a_to_b']['bytes']:,}"),
        ("responder → initiator", f"{links[0]['b_to_a']['bytes']:,}"),
        ("responder → AAA", f"{links[1]['a_to_b']['bytes']:,}"),
        ("AAA → responder", f"{links[1]['b_to_a']['bytes']:,}"),
    ]


def test_parts_add_up(eap):
    numbers = figures(eap)["setup-parts"].numbers
    *parts, whole = (float(text.replace(",", "")) for text in numbers.rows[0][1:])
    assert sum(parts) == pytest.approx(whole, abs=0.002)
    assert [column.name for column in numbers.columns[1:]] == [
        "initiator and network, ms",
        "responder, ms",
        "AAA server, ms",
        "total, ms",
    ]


def test_of_many_the_parts_are_those_of_the_ranks():
    """33 alike with 12.75 ms, and 13 and 967 ms: the slowest is no. 35, the median no. 17 of those that are alike."""
    numbers = figures(analysis([1] * 33 + [2, 3]))["setup-parts"].numbers
    assert [row[0] for row in numbers.rows] == [
        "mean of all",
        "fastest (no. 1)",
        "quarter (no. 9)",
        "median (no. 18)",
        "three quarters (no. 27)",
        "95 % (no. 33)",
        "slowest (no. 35)",
    ]


def test_parts_of_the_mean_add_up():
    """Of half of them the side of the capture is known, so that the network has a part; of the others it is not."""
    known, unknown = (
        read_captures(CAPTURES / "loss20-classic.pcap", ReadOptions(vantage=side)).handshakes
        for side in ("initiator", None)
    )
    a = replace(analysis([]), handshakes=pl.concat([known, unknown]))
    assert 0 < a.handshakes["network_ns"].null_count() < a.handshakes.height
    numbers = figures(a)["setup-parts"].numbers
    assert numbers.rows[0][0] == "mean of all"
    *parts, whole = (float(text.replace(",", "")) for text in numbers.rows[0][1:])
    assert sum(parts) == pytest.approx(whole, abs=0.003)


@pytest.mark.parametrize("style", [PAGE, SINGLE], ids=["page", "single"])
def test_all_are_drawn_as_wide_as_asked(style):
    for figure in make_figures(read_captures(CAPTURES / "loss20-classic.pcap")):
        svg = figure.draw(style)
        assert f' width="{style.width}" ' in svg, figure.name
        assert figure.title
        assert figure.caption.endswith(".")


def places(node: ET.Element, x: float = 0) -> Iterator[tuple[ET.Element, float]]:
    """All elements with how far right they stand, by the `translate` of those around them."""
    moved = re.match(r"translate\(([-\d.]+)", node.get("transform") or "")
    x += float(moved[1]) if moved else 0
    yield node, x
    for child in node:
        yield from places(child, x)


@pytest.mark.parametrize("style", [PAGE, SINGLE], ids=["page", "single"])
def test_labels_are_complete(style):
    """Of many handshakes, with all parts that there are: labels are whole, and the legend is inside of the drawing."""
    a = analysis([1] * 40 + [2, 3])
    a = replace(
        a,
        handshakes=a.handshakes.with_columns(
            pl.col("handshake") + 12_345, network_ns=pl.lit(1_000_000, a.handshakes.schema["network_ns"])
        ),
    )
    root = ET.fromstring(figures(a)["setup-parts"].draw(style))
    texts = [(node.text or "", x) for node, x in places(root) if node.tag.endswith("}text")]
    parts = ["initiator", "responder", "AAA server", "network", "waiting to retransmit"]
    assert [text for text, _ in texts if text in parts] == parts
    assert any("(no. 123" in text for text, _ in texts)
    for text, x in texts:
        assert "…" not in text
        if text in parts:
            assert 0 < x < style.width - 0.5 * style.font * len(text)  # Liberation Sans: half as wide as high
