"""Sizes and names of generated captures."""

import argparse
import re
from pathlib import Path


def parse_size(text: str) -> int:
    """Parse a size such as 1GiB, 128MiB or 64KiB; returns bytes."""
    match = re.fullmatch(r"(\d+)([KMG])iB", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 128MiB or 1GiB")
    return int(match[1]) << 10 * (1 + "KMG".index(match[2]))


def size_name(size: int) -> str:
    """Format a size in bytes as `parse_size` reads it."""
    for bits, unit in ((30, "GiB"), (20, "MiB")):
        if size % (1 << bits) == 0:
            return f"{size >> bits}{unit}"
    return f"{size >> 10}KiB"


def truth_path(capture: Path) -> Path:
    """The path of the file with the expected counts of a capture."""
    return capture.with_name(capture.name + ".truth.json")
