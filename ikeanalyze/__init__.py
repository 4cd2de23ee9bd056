"""Analyse captures of IKEv2 handshakes, in particular post-quantum ones: messages, bytes, round trips.

`ikeanalyze.read("capture.pcap")` returns an `Analysis` with `.frames`, `.messages`, `.exchanges` and `.handshakes` as
polars data frames. Imports are late, so that `import ikeanalyze` loads no other module before it is used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence
    from typing import BinaryIO, Literal

    from ikeanalyze.analysis.result import Analysis

    __version__: str

    File = str | os.PathLike[str] | bytes | BinaryIO

__all__ = ["Analysis", "__version__", "read"]


def read(
    captures: "File | Sequence[File]",
    *,
    keys: "File | Sequence[File]" = (),
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
        captures: one capture or several: paths, or their content as bytes or as binary files that are open for
            reading. Many small captures take a fraction of the time in one call.
        keys: likewise, key files for decryption, in any format that `ikeanalyze keys` reads.
        ports: UDP and TCP ports that carry IKE, in addition to 500 and 4500.
        vantage: side on which the captures were taken (default: inferred from the TTLs, or from the lab's manifest
            next to a capture).
        rtt_ms: round-trip time of the path in milliseconds (default: that in the manifest, or the shortest one seen).
        payloads: also name the payloads of clear messages, in the column `payloads` of `messages`.
        progress: called with the bytes read of a file and its size (None: unknown).

    Raises:
        TypeError: a capture or key file is not a path, bytes or a binary file, or a port is not an integer.
        OSError: an open file cannot be read, or its content cannot be stored for the time of the analysis.
        ValueError: no capture is given, or a port, side or time is invalid.
    """
    import warnings
    from collections.abc import Iterable
    from operator import index
    from tempfile import TemporaryDirectory

    from ikeanalyze.analysis.options import ReadOptions
    from ikeanalyze.analysis.read import read_captures
    from ikeanalyze.io.given_files import store_given_files

    ports = [index(port) for port in (ports if isinstance(ports, Iterable) else [ports])]
    for port in ports:
        if not 1 <= port <= 65535:
            raise ValueError(f"port {port}: there are 1 to 65535")
    if vantage not in (None, "initiator", "responder"):
        raise ValueError(f"vantage {vantage!r}: a capture is taken on the side of the initiator or the responder")
    if rtt_ms is not None and not 0 <= rtt_ms < float("inf"):
        raise ValueError(f"rtt_ms {rtt_ms}: not a time in milliseconds")
    with TemporaryDirectory(prefix="ikeanalyze-") as folder, TemporaryDirectory(prefix="ikeanalyze-") as key_folder:
        files = store_given_files(captures, "a capture", folder)
        key_files = store_given_files(keys, "a file with keys", key_folder)
        if not files.paths:
            raise ValueError("no capture to read")
        options = ReadOptions(
            names={**files.names, **key_files.names},
            keys=key_files.paths,
            ports=ports,
            vantage=vantage,
            rtt_ms=rtt_ms,
            payloads=payloads,
            progress=progress,
        )
        analysis = read_captures(files.paths, options)
    for skipped in analysis.skipped:
        warnings.warn(f"{skipped.path}: {skipped.reason}", stacklevel=2)
    return analysis


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
