"""A temporary directory for the input and output files of a harness, made once per process."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory


@cache
def _make_directory() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="ikeanalyze-fuzz-")


def get_path(name: str) -> str:
    """Return the path of a file in the directory."""
    return str(Path(_make_directory().name) / name)


def write_file(name: str, data: bytes) -> str:
    """Write a file in the directory, in place of an earlier one; return its path."""
    path = Path(get_path(name))
    path.write_bytes(data)
    return str(path)
