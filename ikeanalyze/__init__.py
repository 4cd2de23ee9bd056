"""Analyze captures of IKEv2 handshakes, in particular post-quantum ones: messages, bytes, round trips.

`ikeanalyze.read("capture.pcap")` returns an `Analysis` with `.frames`, `.messages`, `.exchanges` and `.handshakes` as
polars data frames. Imports are late, so that `import ikeanalyze` loads no other module before it is used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence
    from typing import Literal

    from ikeanalyze.analysis.result import Analysis

    __version__: str

    Path = str | os.PathLike[str]

__all__ = ["Analysis", "__version__", "read"]


def read(
    captures: "Path | Sequence[Path]",
    *,
    keys: "Path | Sequence[Path]" = (),
    ports: "int | Sequence[int]" = (),
    vantage: "Literal['initiator', 'responder'] | None" = None,
    rtt_ms: float | None = None,
    payloads: bool = False,
    progress: "Callable[[int, int | None], None] | None" = None,
) -> "Analysis":
    """Read captures: pcap or pcapng, plain, gzip or zstd; "-" is standard input.

    A file that cannot be read does not raise, so that the other files are still read. A Python warning names it, and
    `Analysis.skipped` has the path and the reason.

    Args:
        captures: one path or several. Many small captures take a fraction of the time in one call.
        keys: key files for decryption, in any format that `ikeanalyze keys` reads.
        ports: UDP and TCP ports that carry IKE, in addition to 500 and 4500.
        vantage: side on which the captures were taken (default: inferred from the TTLs, or from the lab's manifest
            next to a capture).
        rtt_ms: round-trip time of the path in milliseconds (default: that in the manifest, or the shortest one seen).
        payloads: also name the payloads of clear messages, in the column `payloads` of `messages`.
        progress: called with the bytes read of a file and its size (None: unknown).

    Raises:
        TypeError: a capture or key file is not a path, or a port is not an integer.
        ValueError: no capture is given, or a port, side or time is invalid.
    """
    import warnings
    from collections.abc import Iterable
    from operator import index

    from ikeanalyze.analysis.options import ReadOptions
    from ikeanalyze.analysis.read import read_captures

    paths, key_paths = _paths(captures, "a capture"), _paths(keys, "a file with keys")
    if not paths:
        raise ValueError("no capture to read")
    ports = [index(port) for port in (ports if isinstance(ports, Iterable) else [ports])]
    for port in ports:
        if not 1 <= port <= 65535:
            raise ValueError(f"port {port}: there are 1 to 65535")
    if vantage not in (None, "initiator", "responder"):
        raise ValueError(f"vantage {vantage!r}: a capture is taken on the side of the initiator or the responder")
    if rtt_ms is not None and not 0 <= rtt_ms < float("inf"):
        raise ValueError(f"rtt_ms {rtt_ms}: no time in milliseconds")
    options = ReadOptions(
        keys=key_paths,
        ports=ports,
        vantage=vantage,
        rtt_ms=rtt_ms,
        payloads=payloads,
        progress=progress,
    )
    analysis = read_captures(paths, options)
    for skipped in analysis.skipped:
        warnings.warn(f"{skipped.path}: {skipped.reason}", stacklevel=2)
    return analysis


def _paths(given: Any, what: str) -> list[str]:
    from os import PathLike, fspath

    paths = [given] if isinstance(given, (str, bytes, PathLike)) or not hasattr(given, "__iter__") else list(given)
    for path in paths:
        if not isinstance(path, (str, PathLike)):
            raise TypeError(f"{what} is named by its path, and {type(path).__name__} is none")
    return [fspath(path) for path in paths]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from ikeanalyze._version import installed_version

        value: Any = installed_version()
    elif name == "Analysis":
        from ikeanalyze.analysis import result

        value = result.Analysis
    else:
        raise AttributeError(f"module 'ikeanalyze' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({"__doc__", "__file__", "__name__", "__path__", *__all__})
