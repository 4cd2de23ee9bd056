"""The compiled core: captures give the same frames, tables and warnings with and without it.

Where the core is not built, the harness does nothing.
"""

from typing import Final
from zlib import adler32

from fuzz.equality import PORTS, compare_frames, compare_tables
from fuzz.harness import Harness
from fuzz.harnesses.pipeline import MAX_CAPTURES, mutate
from fuzz.parts import split_parts
from fuzz.workspace import write_file
from ikeanalyze import core


def run(data: bytes) -> None:
    """Read the captures both ways, each alone and all together with the keys before them."""
    if core.compiled is None:
        return
    keys, *captures = split_parts(data, 1 + MAX_CAPTURES)
    paths = [write_file(f"{number}", capture) for number, capture in enumerate(captures) if capture]
    choice = adler32(data)
    ports = PORTS[choice % len(PORTS)]
    differences = [text for path in paths for text in compare_frames(path, ports, None if choice & 1 else ())]
    if paths:
        differences += compare_tables(paths, ports, [write_file("keys", keys)] if keys else [])
    assert not differences, "\n".join(differences)


HARNESS: Final = Harness(run, mutate, max_bytes=98304, share=0.005)
