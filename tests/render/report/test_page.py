"""What a page says is what the document says; what comes out of a capture stays text; nothing is loaded."""

import base64
import hashlib
import io
import json
import re
from dataclasses import replace
from datetime import datetime
from functools import cache

import polars as pl
import pytest

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.analysis.result import AnalysisWarning, SkippedFile
from ikeanalyze.cli.captures.report import drop_inferred_payloads
from ikeanalyze.render import Format, RenderOptions
from ikeanalyze.render.report import document
from ikeanalyze.render.report import page as report_page
from ikeanalyze.render.report.formats import FORMATS
from tests.paths import CAPTURES
from tests.render.analysis_examples import analysis
from tests.render.html.hostile import hostile
from tests.render.html.pages import Page


def page_of(a, **view) -> Page:
    out = io.StringIO()
    report_page.write_page(a, out, RenderOptions(**view))
    return Page(out.getvalue())


@cache
def recorded(name: str) -> tuple[document.Document, Page]:
    """The document of a capture, read plainly, and its page, read as the command does it."""
    keys = CAPTURES / f"{name.split('.')[0]}.keys.json"
    keys = [keys] if keys.exists() else []
    page = page_of(drop_inferred_payloads(read_captures(CAPTURES / name, ReadOptions(keys=keys, payloads=True))))
    return document.build_report(read_captures(CAPTURES / name, ReadOptions(keys=keys))), page


def ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.3f}"


@pytest.mark.parametrize(
    "name", ["pq-mlkem768-psk.pcap", "eap-md5-radius.pcapng", "loss20-classic.pcap", "ikev1-xauth.pcap"]
)
def test_numbers_are_those_of_the_document(name):
    said, page = recorded(name)
    first = said["handshakes"][0]
    tables = page.tables
    counts = ("messages", "frames", "bytes")
    assert tables["Phases"][1:-1] == [
        [name, *(f"{phase[what]:,}" for what in counts)] for name, phase in first["phases"].items()
    ]
    links = [link[way] for link in first["links"] for way in ("a_to_b", "b_to_a")]
    after = [link[way] for link in first["after_setup"] for way in ("a_to_b", "b_to_a")]
    if any(one["messages"] for one in after):
        links += after
    assert [row[2:] for row in tables["Links"][1:]] == [[f"{one[w]:,}" for w in counts] for one in links]
    assert tables["Set-up time"][-1] == ["total", ms(first["setup_ms"])]
    set_up = [one for one in first["exchanges"] if one["set_up"]]
    assert [row[0] for row in tables["Exchanges"][1:]] == [one["type"] for one in set_up]
    at = tables["Exchanges"][0].index("RTT")
    assert [row[at] for row in tables["Exchanges"][1:]] == [ms(one["rtt_ms"]) for one in set_up]
    if first["payload_bytes"]:
        assert [row[:2] for row in tables["Bytes by payload"][1:-1]] == [
            [part["payload"], f"{part['bytes']:,}"] for part in first["payload_bytes"]
        ]
    capture = said["captures"][0]
    cells = dict(zip(*tables["Captures and what their packets are"], strict=True))
    assert (cells["bytes"], cells["packets"]) == (f"{capture['bytes']:,}", f"{capture['packets']:,}")
    packets = [int(text.replace(",", "")) for name, text in cells.items() if name.endswith(", packets")]
    assert sum(packets) == capture["packets"]


def test_the_table_of_handshakes_is_that_of_the_document():
    reported, page = recorded("loss20-classic.pcap")
    head, *rows = page.tables["Handshakes"]
    assert len(rows) == 25
    starts = [datetime.fromisoformat(handshake["start_time"]) for handshake in reported["handshakes"]]
    for row, handshake, start in zip(rows, reported["handshakes"], starts, strict=True):
        link = handshake["links"][0]
        sums = {name: link["a_to_b"][name] + link["b_to_a"][name] for name in ("messages", "frames", "bytes")}
        assert dict(zip(head, row, strict=True)) == {
            "#": str(handshake["id"]),
            "start, s": f"{(start - starts[0]).total_seconds():,.3f}",
            "set-up, ms": ms(handshake["setup_ms"]),
            **{key: f"{value:,}" for key, value in sums.items()},
            "blow-up": f"{handshake['blowup']:.3f}",
            "retransmissions": str(handshake["retransmissions"]["messages"]),
            "outcome": handshake["outcome"],
            "SPIi": handshake["spi_i"],
        }
    (rest,) = [text for attributes, text in page.scripts if attributes.get("type") == "application/json"]
    assert json.loads(rest) == rows


def test_the_summary_is_that_of_the_document():
    reported, page = recorded("loss20-classic.pcap")
    totals, text = reported["totals"], page.text
    for value in (
        f">{totals['handshakes']}<",
        f">{totals['setup_ms']['median']:,.3f} ms<",
        f">{totals['bytes']:,} bytes<",
        f">{totals['blowup']:.3f}<",
        f">{totals['packets']:,}<",
    ):
        assert value in text


def test_what_is_hostile_stays_text():
    page, plain = page_of(hostile()), page_of(analysis([1, 2, 3, 6]))
    assert [kind for kind, _ in page.scripts if kind.get("type") != "application/json"] == [{}]
    assert page.scripts[-1] == plain.scripts[-1]
    assert {tag for tag, _ in page.tags} - {"li", "ul", "path"} <= {tag for tag, _ in plain.tags} | {"circle"}
    names = {name for _, attributes in page.tags for name in attributes}
    assert not {name for name in names if name.startswith("on")}
    assert "49" not in page.text.replace(" 49", "").split("{{7*7}}")[0][-9:]
    assert page.text.count("{{7*7}}") > 20
    assert "<img" not in page.text


def test_nothing_is_loaded_and_only_our_script_runs():
    page = page_of(analysis([1, 2]))
    (policy,) = [a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert rules["default-src"] == "'none'"
    script = next(text for kind, text in page.scripts if not kind)
    style = re.search("<style>(.*?)</style>", page.text, re.DOTALL)[1]
    for rule, text in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    for tag, attributes in page.tags:
        assert tag not in ("link", "img", "iframe", "object", "base", "form"), tag
        assert "style" not in attributes, f"the policy forbids style attributes: {tag}"
        for name in ("src", "href", "xlink:href", "action"):
            assert (attributes.get(name) or "#").startswith("#"), (tag, attributes)
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/(2000/svg|1999/xlink))", page.text)


def test_a_large_report_says_what_it_leaves_out(monkeypatch):
    monkeypatch.setattr("ikeanalyze.render.report.page.MAX_HANDSHAKES", 60)
    a = analysis([1] * 70)
    page = page_of(a)
    assert "The table has the first 60 of 70 handshakes" in page.text
    assert re.search(r"\d of 70 handshakes have a ladder here", page.text)
    assert len(page.tables["Handshakes"]) == 51  # the others come with the script
    everything = page_of(a, every=True)
    assert "The table has the first" not in everything.text
    (rows,) = [text for kind, text in everything.scripts if kind]
    assert len(json.loads(rows)) == 70


def test_a_report_of_many_stays_small():
    """Of twenty thousand handshakes the table has ten thousand."""
    a = analysis([1] * 40)
    a = replace(
        a,
        handshakes=pl.concat([a.handshakes] * 500).with_columns(
            (pl.int_range(pl.len(), dtype=pl.UInt32) + 1).alias("handshake")
        ),
    )
    assert len(page_of(a).text) < 1_500_000


def test_warnings_and_skipped_captures():
    page = page_of(
        analysis(warnings=[AnalysisWarning("a.pcap", 7, "odd")], skipped=[SkippedFile("b.pcap", "empty file")])
    )
    assert page.tables["Warnings"] == [["file", "frame", "message"], ["a.pcap", "7", "odd"]]
    assert page.tables["Skipped"] == [["file", "why"], ["b.pcap", "empty file"]]
    assert "1 warning: see Warnings." in page.text
    assert "1 file could not be read: see Skipped." in page.text


@pytest.mark.parametrize("which", [[], [1], [4], [5], [1, 2, 3, 4, 5, 6, 7, 8]], ids=str)
def test_any_report_makes_a_page(which):
    page = page_of(analysis(which))
    ladders = [a for tag, a in page.tags if tag == "svg" and "ladder" in (a.get("class") or "")]
    assert len(ladders) == len([number for number in which if number != 8]), "8 is a rekeyed IKE SA"
    assert ("Rekeyed IKE SAs" in page.text) == (8 in which)
    assert ("No handshake was found." in page.text) == (not which)


def test_the_same_input_makes_the_same_page():
    assert page_of(analysis()).text == page_of(analysis()).text


def test_the_page_contains_no_secret(tmp_path):
    """Of the keys that decrypted it, not one is in the page."""
    keys = CAPTURES / "pq-mlkem768-psk.keys.json"
    out = tmp_path / "page.html"
    FORMATS.write(
        read_captures(CAPTURES / "pq-mlkem768-psk.pcap", ReadOptions(keys=keys, payloads=True)), Format.HTML, str(out)
    )
    text = out.read_text().lower()
    assert "established" in text
    secrets = re.findall(r'"([0-9a-f]{40,})"', keys.read_text().lower())
    assert len(secrets) > 8
    assert not [secret for secret in secrets if secret in text]


def test_what_was_sent_again_to_the_aaa_server_is_beside_the_rest():
    """What tshark calls a duplicate, `radius.dup`, handshake by handshake."""
    page = page_of(read_captures(CAPTURES / "lab" / "eap-aaa-loss.pcapng"))
    head, *rows = page.tables["Handshakes"]
    at = head.index("AAA retransmissions")
    assert [row[at] for row in rows] == ["5", "0", "8", "5", "2", "2"]
    assert "22 retransmissions" in page.text
