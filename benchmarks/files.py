"""Sizes and names of generated captures."""

import argparse
import re
from pathlib import Path


def parse_size(text: str) -> int:
    """Bytes, of 1GiB, 128MiB, 64KiB."""
    match = re.fullmatch(r"(\d+)([KMG])iB", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size: write 128MiB or 1GiB")
    return int(match[1]) << 10 * (1 + "KMG".index(match[2]))


def size_name(size: int) -> str:
    """The other way round."""
    for bits, unit in ((30, "GiB"), (20, "MiB")):
        if size % (1 << bits) == 0:
            return f"{size >> bits}{unit}"
    return f"{size >> 10}KiB"


def truth_path(capture: Path) -> Path:
    """The file that describes the contents of a capture."""
    return capture.with_name(capture.name + ".truth.json")
