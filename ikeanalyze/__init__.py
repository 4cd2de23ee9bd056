"""Analyse captures of IKEv2 handshakes, post-quantum ones above all: messages, bytes, round trips.

`ikeanalyze.read("capture.pcap")` gives an `Analysis` with `.frames`, `.messages`, `.exchanges` and
`.handshakes` as polars frames. Importing this module loads nothing else: each name is fetched when it is
first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ikeanalyze.analysis.read import read
    from ikeanalyze.analysis.result import Analysis

    __version__: str

__all__ = ["Analysis", "__version__", "read"]

_HOME = {"read": "ikeanalyze.analysis.read", "Analysis": "ikeanalyze.analysis.result"}


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ikeanalyze")
    except PackageNotFoundError:
        return "unknown (not installed)"


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = _version()
    elif name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module 'ikeanalyze' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
