from dataclasses import replace

import polars as pl

from ikeanalyze.analysis.result import SkippedFile
from ikeanalyze.render import Format
from tests.render.analysis_examples import analysis


def test_tables_are_not_shortened(rendered):
    bars = None
    for line in rendered(analysis(), Format.MARKDOWN).splitlines():
        if line.startswith("|"):
            bars = bars or line.count("|")
            assert line.count("|") == bars
        else:
            bars = None


def test_text_from_a_capture_is_no_markup(rendered):
    a = analysis([1])
    a = replace(a, handshakes=a.handshakes.with_columns(pl.lit("<img> | `x`\n# y").alias("reason")))
    text = rendered(a, Format.MARKDOWN)
    assert "\\<img\\> \\| \\`x\\`\\\\n# y" in text


def test_few_or_all(rendered):
    a = analysis([1] * 31)
    assert "... and 1 more" in rendered(a, Format.MARKDOWN)
    assert "more (" not in rendered(a, Format.MARKDOWN, every=True)


def test_skipped_files_are_listed_with_their_reason(rendered):
    a = analysis([1], skipped=[SkippedFile("bad.pcap", "not a capture")])
    assert "## Skipped\n\n- bad.pcap: not a capture\n" in rendered(a, Format.MARKDOWN)
