"""`ikeanalyze doctor`: check the dependencies of the commands on this machine.

Packages are imported in functions, since any of them may be missing or broken.
"""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib.util import find_spec
from typing import Annotated, Final, Literal, TextIO

import typer
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from ikeanalyze import core
from ikeanalyze._version import installed_version
from ikeanalyze.cli.exit_status import FAILED
from ikeanalyze.cli.options import MessageOptions, command, make_app
from ikeanalyze.cli.output_options import FORMAT_OPTION, SCHEMA_OPTION
from ikeanalyze.io.documentation import find_documentation
from ikeanalyze.io.suggestions import advise_install
from ikeanalyze.render.core.output import open_output

SCHEMA: Final = "ikeanalyze.doctor/1"

app = make_app()


class RequirementStatus(StrEnum):
    """Whether a requirement is met."""

    OK = "ok"
    LACKS = "lacks"  # some functions work less well, or not at all
    BROKEN = "broken"  # `report` does not work


@dataclass(frozen=True, slots=True)
class RequirementCheck:
    """The result of the check of one requirement."""

    name: str
    state: RequirementStatus
    found: str  # version, or the problem
    needed_for: str
    how_to_get: str | None  # None: the requirement is met


#: Packages that `report` needs, and their purpose.
_PACKAGES: Final = {
    "numpy": "reading captures",
    "polars": "all tables",
    "dpkt": "IKE in TCP",
    "xxhash": "recognising retransmissions",
    "zstandard": "captures compressed with zstd",
    "rich": "output in the terminal",
    "typer": "the command line",
}

#: Packages for one command or format: module, and purpose.
_OPTIONAL_PACKAGES: Final = {
    "cryptography": ("cryptography", "decrypting"),
    "altair": ("altair", "figures and pages"),
    "jinja2": ("jinja2", "pages"),
    "markdown-it-py": ("markdown_it", "pages of papers"),
    "vl-convert-python": ("vl_convert", "figures and pages"),
    "scipy": ("scipy", "compare, figures"),
    "prometheus-client": ("prometheus_client", "live --metrics"),
    "textual": ("textual", "view"),
    "distributed": ("distributed", "batch --cluster"),
    "scapy": ("scapy", "replay with raw sockets"),
    "pycryptodome": ("Crypto", "replay with EAP-MSCHAPv2"),
    "vici": ("vici", "lab (see lab doctor)"),
    "psutil": ("psutil", "lab (see lab doctor)"),
}

#: Optional programs: purpose, and Debian package.
_PROGRAMS: Final = {
    "tshark": ("looking into single packets", "tshark"),
    "dumpcap": ("recording captures", "wireshark-common"),
    "wireshark": ("looking into single packets, in windows", "wireshark"),
}


def check_requirements() -> Iterator[RequirementCheck]:
    """Check all requirements of the commands on this machine."""
    yield _ok("ikeanalyze", installed_version(), "everything")
    yield _ok("Python", ".".join(map(str, sys.version_info[:3])), "everything")
    for name, needed_for in _PACKAGES.items():
        yield _check_package(name, needed_for)
    for name, (module, needed_for) in _OPTIONAL_PACKAGES.items():
        yield _check_optional_package(name, module, needed_for, advise_install(name, "--upgrade"))
    yield _check_core()
    yield _check_gzip()
    for name, (needed_for, package) in _PROGRAMS.items():
        yield _check_program(name, needed_for, package)
    yield _check_capturing()
    yield _check_documentation()


def _ok(name: str, version: str, needed_for: str) -> RequirementCheck:
    return RequirementCheck(name, RequirementStatus.OK, version, needed_for, None)


def _lacks(name: str, problem: str, needed_for: str, remedy: str) -> RequirementCheck:
    return RequirementCheck(name, RequirementStatus.LACKS, problem, needed_for, remedy)


def _check_package(name: str, needed_for: str) -> RequirementCheck:
    def broken(problem: str, remedy: str) -> RequirementCheck:
        return RequirementCheck(name, RequirementStatus.BROKEN, problem, needed_for, remedy)

    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return broken("not installed", advise_install(name, "--upgrade"))
    try:
        importlib.import_module(name)
    except Exception as error:  # a broken installation may raise anything
        return broken(f"{version} cannot be loaded: {error}", advise_install(name, "--force-reinstall"))
    required = _get_required_versions(name)
    if not required.contains(version, prereleases=True):
        return broken(f"{version}, but {required} is required", advise_install(name, "--upgrade"))
    return _ok(name, version, needed_for)


def _check_optional_package(name: str, module: str, needed_for: str, remedy: str) -> RequirementCheck:
    """Check a package without importing it, which may take half a second."""
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return _lacks(name, "not installed", needed_for, remedy)
    if find_spec(module) is None:
        return _lacks(name, f"{version} is incomplete", needed_for, advise_install(name, "--force-reinstall"))
    return _ok(name, version, needed_for)


def _get_required_versions(name: str) -> SpecifierSet:
    """Return the versions of a package that the metadata of ikeanalyze allow; without metadata, all."""
    try:
        requirements = map(Requirement, importlib.metadata.requires("ikeanalyze") or [])
    except importlib.metadata.PackageNotFoundError:  # run from the sources
        return SpecifierSet()
    for requirement in requirements:
        if requirement.name == name and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            return requirement.specifier
    return SpecifierSet()


def _check_core() -> RequirementCheck:
    name, needed_for = "compiled core", "speed"
    if core.problem is None:
        return _ok(name, "in use", needed_for)
    left_out = os.environ.get(core.SWITCH) == "0"
    remedy = f"unset {core.SWITCH}" if left_out else "make core, or pip install with cargo on this machine"
    return _lacks(name, core.problem, needed_for, remedy)


def _check_gzip() -> RequirementCheck:
    try:
        import zlib
    except ImportError:
        return _lacks("gzip", "this Python has no zlib", "captures compressed with gzip", "a Python built with zlib")
    return _ok("gzip", f"zlib {zlib.ZLIB_RUNTIME_VERSION}", "captures compressed with gzip")


def _check_program(name: str, needed_for: str, package: str) -> RequirementCheck:
    if shutil.which(name) is None:
        return _lacks(name, "not found", needed_for, f"apt install {package}")
    status, text = _run(name, "--version")
    match = re.search(r"\d+\.\d+(\.\d+)*", text)
    if status != 0 or match is None:
        return _lacks(name, "does not start", needed_for, f"apt install --reinstall {package}")
    return _ok(name, match[0], needed_for)


def _check_capturing() -> RequirementCheck:
    name, needed_for = "right to capture", "recording captures"
    if shutil.which("dumpcap") is None:
        return _lacks(name, "no dumpcap", needed_for, "apt install wireshark-common")
    remedy = "dpkg-reconfigure wireshark-common, then usermod -aG wireshark $USER and log in again; or as root"
    status, text = _run("dumpcap", "-D", "-M")
    interfaces = re.findall(r"^\d+\. ([^\t]+)", text, re.MULTILINE)
    if status != 0 or not interfaces:
        return _lacks(name, "dumpcap sees no interface", needed_for, remedy)
    # dumpcap lists interfaces to everyone; its list of their link layers comes from opening one.
    status, _text = _run("dumpcap", "-L", "-M", "-i", "any" if "any" in interfaces else interfaces[0])
    if status != 0:
        return _lacks(name, "dumpcap may not open interfaces", needed_for, remedy)
    return _ok(name, f"{len(interfaces)} interfaces", needed_for)


def _check_documentation() -> RequirementCheck:
    name, needed_for = "documentation", "files of docs/ that texts name"
    folder = find_documentation()
    if folder is None:
        remedy = "install ikeanalyze again (in a clone: pip install --force-reinstall .)"
        return _lacks(name, "not installed", needed_for, remedy)
    return _ok(name, str(folder), needed_for)


def _run(*arguments: str) -> tuple[int | None, str]:
    """Return the exit status of a program (None: it does not start or hangs) and its standard output."""
    try:
        done = subprocess.run(
            arguments, capture_output=True, text=True, errors="replace", timeout=20, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None, ""
    return done.returncode, done.stdout


@command(app, "[OPTIONS]")
def doctor(
    messages: MessageOptions,  # noqa: ARG001 - all commands have its options
    output_format: Annotated[Literal["terminal", "json"], FORMAT_OPTION] = "terminal",
    schema: Annotated[bool, SCHEMA_OPTION] = False,  # noqa: ARG001 - its callback prints it
) -> None:
    """Check the dependencies of the other commands on this machine.

    For each missing dependency the output has its purpose and how to install it. The exit status is 1 if `report`
    does not work, and 0 if only optional dependencies are missing. The line "documentation" has the folder of the
    files that texts of ikeanalyze name, such as docs/diagnosis.md.
    """
    checks = list(check_requirements())
    broken = [check.name for check in checks if check.state is RequirementStatus.BROKEN]
    with open_output("-") as out:
        if output_format == "json" or "rich" in broken:
            _write_json(checks, out)
        else:
            _write_table(checks, out)
    if broken:
        raise typer.Exit(FAILED)


def _write_json(checks: list[RequirementCheck], out: TextIO) -> None:
    ready = all(check.state is not RequirementStatus.BROKEN for check in checks)
    document = {"schema": SCHEMA, "ready": ready, "checks": [asdict(check) for check in checks]}
    out.write(json.dumps(document, indent=2) + "\n")


def _write_table(checks: list[RequirementCheck], out: TextIO) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from ikeanalyze.render.core.terminal import TextStyler

    colours = {RequirementStatus.OK: "green", RequirementStatus.LACKS: "yellow", RequirementStatus.BROKEN: "bold red"}
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("", "what", "found", "needed for"):
        table.add_column(heading, overflow="fold")
    for check in checks:
        cells = (check.name, check.found, check.needed_for)
        table.add_row(Text(check.state, colours[check.state]), *(Text(cell) for cell in cells))
    coloured = not os.environ.get("NO_COLOR")  # otherwise nothing is bold either, as in reports
    console = Console(
        file=out,
        width=None if out.isatty() else TextStyler(out, None).width,
        highlight=False,
        color_system="auto" if coloured else None,
    )
    remedies = [check for check in checks if check.how_to_get]
    broken = any(check.state is RequirementStatus.BROKEN for check in checks)
    with console.capture() as text:  # the console itself would exit on a closed pipe
        console.print(table)
        for check in remedies:
            # commands are copied, so they stay in one line
            console.print(Text(f"{check.name}, for {check.needed_for}: {check.how_to_get}"), soft_wrap=True)
        if remedies:
            console.print()
        others = "The others do, too, except for what is listed above" if remedies else "The others do, too"
        works = f"report and ladder work here. {others}. `ikeanalyze lab doctor` checks lab."
        console.print(Text("report cannot work here." if broken else works))
    lines = text.get().splitlines()
    out.write("".join(f"{line.rstrip()}\n" for line in lines).lstrip("\n"))
