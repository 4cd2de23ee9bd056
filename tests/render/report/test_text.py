import io
from dataclasses import replace

import polars as pl

from ikeanalyze.render.core.terminal import write_sections
from ikeanalyze.render.report import text
from ikeanalyze.render.report.selection import select_handshake
from tests.render.analysis_examples import CAPTURE, analysis


def titles(a) -> list[str]:
    return [section.title for section in text.render_sections(a, every=False)]


def test_details_of_one_handshake():
    assert titles(analysis([2])) == [
        CAPTURE,
        "Handshake 1: completed in 13.000 ms",
        "Proposal",
        "Links",
        "Phases",
        "Exchanges",
        "Set-up time",
        "Transport",
    ]


def test_what_keys_add_to_one_handshake():
    before = titles(analysis([1]))
    assert [title for title in titles(analysis([6])) if title not in before] == [
        "Key exchanges",
        "Key exchanges after the set-up",
        "Certificates",
        "Bytes by payload",
    ]


def test_many_handshakes_and_none():
    assert titles(analysis([1, 2]))[1:] == ["2 handshakes, all with", "Handshakes", "Together"]
    assert titles(analysis([6, 7]))[-2:] == ["Together", "Bytes by payload"]
    assert titles(analysis([])) == [CAPTURE, "Handshakes"]


def test_uncertain_times_are_marked_and_explained():
    a = analysis([1, 3])
    reason = pl.when(pl.col("handshake") == 2).then(pl.lit("the reason"))
    a = replace(a, handshakes=a.handshakes.with_columns(reason.alias("uncertain")))
    for marked, chosen in (("~967.000", a), ("~967.000 ms", select_handshake(a, 2))):
        out = io.StringIO()
        write_sections(text.render_sections(chosen, every=False), out, 80)
        assert marked in out.getvalue()
        assert "~ uncertain: the reason; set --vantage and --rtt" in out.getvalue()
        assert "~12.750" not in out.getvalue()
