"""JSON lines: a handshake a line, each as in the JSON report's "handshakes"."""

from typing import TextIO

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render import document


def write_json_lines(analysis: Analysis, out: TextIO) -> None:
    """Write a line per handshake."""
    for text in document.iterate_handshake_json(analysis):
        out.write(text + "\n")
