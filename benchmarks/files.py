"""Generated captures: their sizes, names and places."""

import argparse
import re
import subprocess
import sys
from pathlib import Path

from benchmarks.readers import DATA, ROOT, Reader, print_progress


def parse_size(text: str) -> int:
    """Parse a size such as 1GiB, 128MiB or 64KiB; returns bytes."""
    match = re.fullmatch(r"(\d+)([KMG])iB", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 128MiB or 1GiB")
    return int(match[1]) << 10 * (1 + "KMG".index(match[2]))


def format_size(size: int) -> str:
    """Format a size in bytes as `parse_size` reads it."""
    for bits, unit in ((30, "GiB"), (20, "MiB")):
        if size % (1 << bits) == 0:
            return f"{size >> bits}{unit}"
    return f"{size >> 10}KiB"


def get_truth_path(capture: Path) -> Path:
    """The path of the file with the expected counts of a capture."""
    return capture.with_name(capture.name + ".truth.json")


def get_capture_path(kind: str, size: int) -> Path:
    """Where `make_capture` has its file."""
    return DATA / f"{kind}-{format_size(size)}.pcap"


def make_capture(kind: str, size: int) -> Path:
    """The capture, generated if it does not exist; reads it into the page cache."""
    path = get_capture_path(kind, size)
    if not (path.exists() and get_truth_path(path).exists()):
        DATA.mkdir(exist_ok=True)
        print_progress(f"generating {path.relative_to(ROOT)}")
        # in a separate process: the peak memory of a child starts with that of its parent at the fork
        command = [
            sys.executable,
            "-m",
            "benchmarks.generate",
            kind,
            "--size",
            format_size(size),
            "-o",
            str(path),
        ]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    Reader("cat", [["cat", str(path)]], from_stdin=False).run(path)
    return path
