"""`ikeanalyze doctor`: what this machine has and lacks for the commands that there are."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, TextIO

import typer

from ikeanalyze.cli.outcome import FAILED, job

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

SCHEMA: Final = "ikeanalyze.doctor/1"

#: Of a package by itself: ours may have come from a clone, and no index need have it under its name.
_INSTALL: Final = "pip install --upgrade {}"


class State(StrEnum):
    """What was found of one thing."""

    OK = "ok"
    LACKS = "lacks"  # something works less well, or not at all
    BROKEN = "broken"  # the main job cannot be done


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that this machine has or lacks."""

    name: str
    state: State
    found: str  # version, or what is wrong
    needed_for: str
    how_to_get: str | None  # None: it is there


#: Packages that `report` cannot do without, and what for.
_PACKAGES: Final = {
    "numpy": "reading captures",
    "polars": "all tables",
    "dpkt": "rare link layers",
    "xxhash": "recognising retransmissions",
    "zstandard": "captures compressed with zstd",
    "rich": "output in the terminal",
    "typer": "the command line",
}

#: Packages that one command or format needs: their modules, what for, and what installs them (None: `_INSTALL`).
_OTHERS: Final = {
    "cryptography": ("cryptography", "decrypting", None),
    "altair": ("altair", "figures and pages", None),
    "jinja2": ("jinja2", "pages", None),
    "vl-convert-python": ("vl_convert", "figures and pages", None),
    "scipy": ("scipy", "compare", None),
    "textual": ("textual", "view", "pip install 'ikeanalyze[view]'"),
    "distributed": ("distributed", "batch --cluster", "pip install 'ikeanalyze[cluster]'"),
    "scapy": ("scapy", "replay with raw sockets", "pip install 'ikeanalyze[replay]'"),
    "pycryptodome": ("Crypto", "replay with EAP-MSCHAPv2", "pip install 'ikeanalyze[replay]'"),
    "vici": ("vici", "lab (see lab doctor)", "pip install 'ikeanalyze[lab]'"),
    "psutil": ("psutil", "lab (see lab doctor)", "pip install 'ikeanalyze[lab]'"),
}

#: Programs that are good to have, what for, and the Debian package that has them.
_PROGRAMS: Final = {
    "tshark": ("looking into single packets", "tshark"),
    "dumpcap": ("recording captures", "wireshark-common"),
    "wireshark": ("looking into single packets, in windows", "wireshark"),
}


def checks() -> Iterator[Check]:
    """Look at this machine, one thing after another."""
    yield _ours()
    yield _python()
    for name, needed_for in _PACKAGES.items():
        yield _package(name, needed_for)
    for name, (module, needed_for, how) in _OTHERS.items():
        yield _other(name, module, needed_for, how)
    yield _gzip()
    for name, (needed_for, package) in _PROGRAMS.items():
        yield _program(name, needed_for, package)
    yield _capturing()


def _ours() -> Check:
    from ikeanalyze import __version__

    return Check("ikeanalyze", State.OK, __version__, "everything", None)


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return Check("Python", State.OK, version, "everything", None)


def _package(name: str, needed_for: str) -> Check:
    from importlib import import_module
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version(name)
    except PackageNotFoundError:
        return Check(name, State.BROKEN, "not installed", needed_for, _INSTALL.format(name))
    try:
        import_module(name)
    except Exception as error:  # whatever a broken installation raises
        return Check(
            name,
            State.BROKEN,
            f"{found} cannot be loaded: {error}",
            needed_for,
            f"pip install --force-reinstall {name}",
        )
    least = _least(name)
    if least is not None and _numbers(found) < _numbers(least):
        return Check(name, State.BROKEN, f"{found}, older than {least}", needed_for, _INSTALL.format(name))
    return Check(name, State.OK, found, needed_for, None)


def _other(name: str, module: str, needed_for: str, how: str | None) -> Check:
    """A package that is looked for and not loaded: some take half a second."""
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec

    try:
        found = version(name)
    except PackageNotFoundError:
        return Check(name, State.LACKS, "not installed", needed_for, how or _INSTALL.format(name))
    if find_spec(module) is None:
        again = f"pip install --force-reinstall {name}"
        return Check(name, State.LACKS, f"{found} is not complete", needed_for, again)
    return Check(name, State.OK, found, needed_for, None)


def _least(name: str) -> str | None:
    """The oldest version that our package's metadata allows; None: run from the sources."""
    import re
    from importlib.metadata import PackageNotFoundError, requires

    try:
        wanted = requires("ikeanalyze") or []
    except PackageNotFoundError:
        return None
    for requirement in wanted:
        if match := re.match(rf"{name}\s*\(?>=\s*([0-9.]+)[^;]*$", requirement):
            return match[1]
    return None


def _numbers(version: str) -> tuple[int, ...]:
    import re

    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _gzip() -> Check:
    try:
        import zlib
    except ImportError:
        return Check(
            "gzip",
            State.LACKS,
            "this Python has no zlib",
            "captures compressed with gzip",
            "a Python built with zlib",
        )
    return Check("gzip", State.OK, f"zlib {zlib.ZLIB_RUNTIME_VERSION}", "captures compressed with gzip", None)


def _program(name: str, needed_for: str, package: str) -> Check:
    import re
    import shutil

    if shutil.which(name) is None:
        return Check(name, State.LACKS, "not found", needed_for, f"apt install {package}")
    status, text = _run(name, "--version")
    match = re.search(r"\d+\.\d+(\.\d+)*", text)
    if status != 0 or match is None:
        return Check(name, State.LACKS, "does not start", needed_for, f"apt install --reinstall {package}")
    return Check(name, State.OK, match[0], needed_for, None)


def _capturing() -> Check:
    import shutil

    name, needed_for = "right to capture", "recording captures"
    if shutil.which("dumpcap") is None:
        return Check(name, State.LACKS, "no dumpcap", needed_for, "apt install wireshark-common")
    status, text = _run("dumpcap", "-D", "-M")
    interfaces = [line for line in text.splitlines() if line.strip()]
    if status == 0 and interfaces:
        return Check(name, State.OK, f"{len(interfaces)} interfaces", needed_for, None)
    how = "dpkg-reconfigure wireshark-common, then usermod -aG wireshark $USER and log in again; or as root"
    return Check(name, State.LACKS, "dumpcap sees no interface", needed_for, how)


def _run(*command: str) -> tuple[int | None, str]:
    """Exit status (None: does not start or hangs) and standard output of a program."""
    import subprocess

    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=20, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None, ""
    return done.returncode, done.stdout


def doctor(
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="terminal or json.",
            autocompletion=lambda: ["terminal", "json"],
        ),
    ] = "terminal",
    quiet: Annotated[  # noqa: ARG001 - it has no remarks, and scripts say it to each command
        bool, typer.Option("--quiet", help="No remarks on standard error.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Tracebacks of internal errors.")] = False,
) -> None:
    """Say what this machine has and lacks for the other commands.

    Each lack says what the thing is needed for and how to get it. The exit status is 1 if `report` cannot
    work, and 0 if only what is optional lacks.
    """
    with job(verbose=verbose):
        from ikeanalyze.render.output import opened

        writers: dict[str, Callable[[list[Check], TextIO], None]] = {"terminal": _table, "json": _json}
        if form not in writers:
            raise typer.BadParameter(
                f"there is no format {form!r}; there are {', '.join(writers)}", param_hint="--format"
            )
        found = list(checks())
        broken = any(check.state is State.BROKEN for check in found)
        if form == "terminal" and any(check.name == "rich" and check.state is State.BROKEN for check in found):
            form = "json"
        with opened("-") as out:
            writers[form](found, out)
        if broken:
            raise typer.Exit(FAILED)


def _json(found: list[Check], out: TextIO) -> None:
    import json

    ready = all(check.state is not State.BROKEN for check in found)
    document = {"schema": SCHEMA, "ready": ready, "checks": [asdict(check) for check in found]}
    out.write(json.dumps(document, indent=2) + "\n")


def _table(found: list[Check], out: TextIO) -> None:
    import os

    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    colours = {State.OK: "green", State.LACKS: "yellow", State.BROKEN: "bold red"}
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("", "what", "found", "needed for"):
        table.add_column(heading, overflow="fold")
    for check in found:
        cells = (check.name, check.found, check.needed_for)
        table.add_row(Text(check.state, colours[check.state]), *(Text(cell) for cell in cells))
    coloured = not os.environ.get("NO_COLOR")  # else nothing is bold either, as in reports
    console = Console(
        file=out,
        width=None if out.isatty() else 80,
        highlight=False,
        color_system="auto" if coloured else None,
    )
    with console.capture() as text:  # of a closed pipe the console would make an exit status of its own
        _print(console, table, found)
    out.write(text.get())


def _print(console: "Console", table: "Table", found: list[Check]) -> None:
    from rich.text import Text

    console.print(table)
    lacking = [check for check in found if check.how_to_get]
    for check in lacking:
        console.print(Text(f"{check.name}, for {check.needed_for}: {check.how_to_get}"))
    broken = any(check.state is State.BROKEN for check in found)
    if lacking:
        console.print()
    console.print(Text("report cannot work here." if broken else "report and ladder work here."))
