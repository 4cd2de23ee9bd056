"""What people see, to the letter, at 80 columns. UPDATE_GOLDEN=1 writes the files anew."""

import io
import os
from pathlib import Path

import pytest

from ikeanalyze.analysis.result import Warning  # noqa: A004
from ikeanalyze.render import View, ladder, markdown, select, terminal
from tests.render.handmade import analysis

GOLDEN = Path(__file__).parent / "golden"

CASES = {
    "terminal-pq": (terminal.write, lambda: analysis([1])),
    "terminal-radius": (terminal.write, lambda: analysis([2])),
    "terminal-loss": (terminal.write, lambda: analysis([3])),
    "terminal-unanswered": (terminal.write, lambda: analysis([4])),
    "terminal-ikev1": (terminal.write, lambda: analysis([5])),
    "terminal-five": (terminal.write, lambda: analysis(warnings=[Warning("lab/testbed.pcapng", 3, "odd")])),
    "terminal-many": (terminal.write, lambda: analysis([1, 3] * 20)),
    "terminal-none": (terminal.write, lambda: analysis([])),
    "terminal-read": (terminal.write, lambda: analysis([6])),
    "terminal-read-eap": (terminal.write, lambda: analysis([7])),
    "terminal-read-three": (terminal.write, lambda: analysis([6, 8, 7])),
    "ladder-pq": (ladder.write, lambda: select.handshake(analysis(), 1)),
    "ladder-radius": (ladder.write, lambda: select.handshake(analysis(), 2)),
    "ladder-loss": (ladder.write, lambda: select.handshake(analysis(), 3)),
    "ladder-ikev1": (ladder.write, lambda: select.handshake(analysis(), 5)),
    "ladder-read": (ladder.write, lambda: analysis([6])),
    "ladder-read-eap": (ladder.write, lambda: analysis([7])),
    "markdown-read": (markdown.write, lambda: analysis([6])),
    "markdown-pq": (markdown.write, lambda: analysis([1])),
    "markdown-five": (markdown.write, lambda: analysis(warnings=[Warning("lab/testbed.pcapng", 3, "odd | <b>")])),
}


@pytest.mark.parametrize("name", CASES)
def test_golden(name):
    write, make = CASES[name]
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    write(make(), out, View())
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
