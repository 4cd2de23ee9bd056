"""The whole analysis: captures and an optional key file become tables, and these a report in every text format.

An input has several captures, because a step of the analysis takes as long for one small capture as for many.
"""

from random import Random
from typing import Final
from zlib import adler32

from fuzz.harness import Harness
from fuzz.laws import check_analysis, check_formats
from fuzz.mutators.captures import mutate_capture
from fuzz.mutators.text import mutate_text
from fuzz.parts import join_parts, split_parts
from fuzz.workspace import write_file
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.render import Format

MAX_CAPTURES: Final = 8
#: Every input is written in one of these formats. HTML takes longer than the analysis, so it is rare.
_FORMATS: Final = (Format.TERMINAL, Format.JSON, Format.JSONL, Format.CSV, Format.MARKDOWN)
_HTML_INTERVAL: Final = 64


def run(data: bytes) -> None:
    """Analyse the captures with the keys before them; without keys, list the payloads of clear messages."""
    keys, *captures = split_parts(data, 1 + MAX_CAPTURES)
    paths = [write_file(f"{number}", capture) for number, capture in enumerate(captures) if capture]
    if not paths:
        return
    choice = adler32(data)
    options = ReadOptions(payloads=True, cleartext=choice % 2 == 0)
    if keys:
        options = ReadOptions(keys=[write_file("keys", keys)], cleartext=choice % 2 == 0)
    analysis = read_captures(paths, options)
    assert len(analysis.captures) + sum(not skipped.keys for skipped in analysis.skipped) == len(paths)
    check_analysis(analysis)
    check_formats(analysis, [Format.HTML if choice % _HTML_INTERVAL == 0 else _FORMATS[choice % len(_FORMATS)]])


def mutate(data: bytes, rng: Random) -> bytes:
    """Change some captures, replace some by a mutated copy of another one, or change the keys."""
    keys, *captures = split_parts(data, 1 + MAX_CAPTURES)
    given = [capture for capture in captures if capture] or [b""]
    for index, capture in enumerate(captures):
        if not capture:
            captures[index] = mutate_capture(rng.choice(given), rng)
        elif rng.random() < 0.5:
            captures[index] = mutate_capture(capture, rng)
    if keys and rng.random() < 0.2:
        keys = mutate_text(keys, rng)
    return join_parts([keys, *captures])


HARNESS: Final = Harness(run, mutate, max_bytes=98304, share=0.01)
