"""JSON lines: a handshake a line, each as in the JSON report's "handshakes"."""

from typing import TextIO

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render import View, document


def write(analysis: Analysis, out: TextIO, view: View) -> None:  # noqa: ARG001 - JSON lines always have everything
    """Write a line per handshake."""
    for text in document.handshake_texts(analysis):
        out.write(text + "\n")
