import io
from dataclasses import replace

import polars as pl
import pytest

from ikeanalyze.render import Format, RenderOptions
from ikeanalyze.render.report.formats import FORMATS
from tests.render.analysis_examples import analysis, summary


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def text_of(a, out=None, **view) -> str:
    out = out or io.StringIO()
    FORMATS.texts[Format.TERMINAL](a, out, RenderOptions(**view))
    return out.getvalue()


@pytest.fixture
def _colours(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.usefixtures("_colours")
def test_colour_adds_nothing_but_colour():
    from rich.text import Text

    coloured = text_of(analysis(), Terminal())
    assert "\x1b[" in coloured
    assert Text.from_ansi(coloured).plain.rstrip() == text_of(analysis()).rstrip()


@pytest.mark.usefixtures("_colours")
def test_no_color_switches_colours_off(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in text_of(analysis(), Terminal())


def test_few_or_all():
    a = analysis([1] * 45)
    assert "... and 15 more (--no-limit shows them)" in text_of(a)
    everything = text_of(a, every=True)
    assert "more (" not in everything
    assert any(line.split()[:1] == ["45"] for line in everything.splitlines())


def test_wider_terminals_get_more_columns():
    assert "no room for" in text_of(analysis(), width=80)
    wide = text_of(analysis(), width=190)
    assert "no room for" not in wide
    assert "ECP-384 + ML-KEM-768" in wide


@pytest.mark.parametrize("width", [60, 72, 80, 100, 132])
def test_nothing_is_wider_than_the_terminal(width):
    for which in ([1], [2], [3], [5], [1, 2, 3, 4, 5], [6], [7], [8], [6, 8, 7]):
        text = text_of(analysis(which), width=width)
        assert max(map(len, text.splitlines())) <= width


def test_long_proposals_continue_on_the_next_line_after_a_slash():
    additional = [f"ADDKE{slot}:ML-KEM-1024" for slot in range(1, 8)]
    proposal = "/".join(["AES-GCM-16-256", "HMAC-SHA2-512", "X25519", *additional])
    a = analysis([2])
    a = replace(a, handshakes=a.handshakes.with_columns(pl.Series("offered", [[proposal]], pl.List(pl.String))))
    lines = text_of(a, width=80).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("  offered "))
    assert [line.split()[-1] for line in lines[start : start + 3]] == [
        "AES-GCM-16-256/HMAC-SHA2-512/X25519/ADDKE1:ML-KEM-1024/",
        "ADDKE2:ML-KEM-1024/ADDKE3:ML-KEM-1024/ADDKE4:ML-KEM-1024/",
        "ADDKE5:ML-KEM-1024/ADDKE6:ML-KEM-1024/ADDKE7:ML-KEM-1024",
    ]


def test_many_captures_are_a_table():
    a = analysis([1])
    a = replace(a, captures=[summary(f"{'long/' * 20}{i}.pcap") for i in range(40)])
    text = text_of(a)
    assert text.startswith("Captures\n")
    assert "... and 10 more" in text
    assert max(map(len, text.splitlines())) <= 80


def test_what_is_wrong_with_a_capture_is_said():
    a = analysis([1])
    a = replace(a, captures=[replace(a.captures[0], damaged=True, snaplen_truncated=7)])
    text = text_of(a)
    assert "truncated or damaged after packet 12" in text
    assert "cut by the snaplen  7 packets" in text


def test_escapes_in_a_capture_do_not_reach_the_terminal():
    a = analysis([1])
    a = replace(a, handshakes=a.handshakes.with_columns(pl.lit("\x1b[2J").alias("reason")))
    assert "\\x1b[2J" in text_of(a)
    assert "\x1b" not in text_of(a)


def test_a_list_has_what_finds_a_handshake_in_a_log_from_100_columns_on():
    def get_heading(width):
        return next(line for line in text_of(analysis(), width=width).splitlines() if line.startswith("  #  "))

    assert {"start,", "SPIi", "rtx"} <= set(get_heading(100).split())
    assert not {"start,", "SPIi", "rtx"} & set(get_heading(99).split())
    first = analysis().handshakes.row(0, named=True)
    assert f"1  16:00:10.123  {first['spi_i']}  " in text_of(analysis(), width=100)
    assert "no room for: start" not in text_of(analysis(), width=80)


def test_starts_on_several_days_have_their_date():
    later = pl.col("start_ns") + 86_400_000_000_000 * (pl.col("handshake") - 1)
    a = analysis()
    text = text_of(replace(a, handshakes=a.handshakes.with_columns(later)), width=140)
    assert "2025-11-24 16:00:10.123" in text
    assert "2025-11-25 16:00:20.123" in text


@pytest.mark.usefixtures("_colours")
def test_the_headline_of_a_failure_is_red():
    def get_style(number):
        text = text_of(analysis([number]), Terminal())
        return next(line for line in text.splitlines() if "Handshake 1: " in line).partition("Handshake")[0]

    rows = [row for row in analysis(range(1, 9)).handshakes.to_dicts() if not row["rekeyed"]]
    by_outcome = {row["outcome"]: row["handshake"] for row in rows}
    success, failure = get_style(by_outcome["established"]), get_style(by_outcome["unanswered"])
    assert "\x1b[1;36m" in success  # bold cyan
    assert "\x1b[1;31m" in failure  # bold red


@pytest.mark.parametrize(("columns", "width"), [("120", 120), ("", 80), ("wide", 80), ("-5", 80), ("20", 60)])
def test_output_that_is_not_a_terminal_is_as_wide_as_columns_says(monkeypatch, columns, width):
    monkeypatch.setenv("COLUMNS", columns)
    assert text_of(analysis()) == text_of(analysis(), width=width)
