"""Text formats of a report and the ladder against golden files, at 80 columns; UPDATE_GOLDEN=1 rewrites them."""

import io
import os
from pathlib import Path

import pytest

from ikeanalyze.analysis.result import AnalysisWarning
from ikeanalyze.render import Format, RenderOptions
from ikeanalyze.render.ladder import text as ladder_text
from ikeanalyze.render.report import selection
from ikeanalyze.render.report.formats import FORMATS
from tests.render.analysis_examples import analysis

GOLDEN = Path(__file__).parent / "golden"

write_terminal, write_markdown = FORMATS.texts[Format.TERMINAL], FORMATS.texts[Format.MARKDOWN]

CASES = {
    "terminal-pq": (write_terminal, lambda: analysis([1])),
    "terminal-radius": (write_terminal, lambda: analysis([2])),
    "terminal-loss": (write_terminal, lambda: analysis([3])),
    "terminal-unanswered": (write_terminal, lambda: analysis([4])),
    "terminal-ikev1": (write_terminal, lambda: analysis([5])),
    "terminal-five": (
        write_terminal,
        lambda: analysis(warnings=[AnalysisWarning("lab/testbed.pcapng", 3, "odd")]),
    ),
    "terminal-many": (write_terminal, lambda: analysis([1, 3] * 20)),
    "terminal-none": (write_terminal, lambda: analysis([])),
    "terminal-read": (write_terminal, lambda: analysis([6])),
    "terminal-read-eap": (write_terminal, lambda: analysis([7])),
    "terminal-read-three": (write_terminal, lambda: analysis([6, 8, 7])),
    "ladder-pq": (ladder_text.write_ladder, lambda: selection.select_handshake(analysis(), 1)),
    "ladder-radius": (ladder_text.write_ladder, lambda: selection.select_handshake(analysis(), 2)),
    "ladder-loss": (ladder_text.write_ladder, lambda: selection.select_handshake(analysis(), 3)),
    "ladder-ikev1": (ladder_text.write_ladder, lambda: selection.select_handshake(analysis(), 5)),
    "ladder-read": (ladder_text.write_ladder, lambda: analysis([6])),
    "ladder-read-eap": (ladder_text.write_ladder, lambda: analysis([7])),
    "markdown-read": (write_markdown, lambda: analysis([6])),
    "markdown-pq": (write_markdown, lambda: analysis([1])),
    "markdown-five": (
        write_markdown,
        lambda: analysis(warnings=[AnalysisWarning("lab/testbed.pcapng", 3, "odd | <b>")]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_text_equals_the_golden_file(name):
    write, make = CASES[name]
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    write(make(), out, RenderOptions())
    text = out.buffer.getvalue().decode()
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
    if not name.startswith("markdown"):
        assert max(map(len, text.splitlines())) <= 80
        assert not any(line.endswith(" ") for line in text.splitlines())
        assert "\x1b" not in text
