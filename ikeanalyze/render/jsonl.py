"""JSON lines: a handshake a line, each as in the JSON report's "handshakes"."""

from typing import TextIO

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render import document


def write(analysis: Analysis, out: TextIO) -> None:
    """Write a line per handshake."""
    for text in document.handshake_texts(analysis):
        out.write(text + "\n")
