"""`ikeanalyze wireshark`: install, remove and check the Wireshark plugin on this machine."""

import os
import stat
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from ikeanalyze._version import installed_version
from ikeanalyze.cli.exit_status import FAILED, CommandError, fail_command, log_stderr, print_result
from ikeanalyze.cli.options import MessageOptions, command, make_app
from ikeanalyze.plugin import PluginError, installer, manifest, plugin_files
from ikeanalyze.plugin import tshark as plugin_tshark
from ikeanalyze.plugin.installer import FileChange, FileStatus
from ikeanalyze.plugin.manifest import InstallManifest
from ikeanalyze.plugin.plugin_files import PluginFile
from ikeanalyze.plugin.tshark import TsharkInfo
from ikeanalyze.plugin.wireshark_folders import WiresharkFolders, get_default_folders
from ikeanalyze.render.core.values import escape_text

_STATES: Final = {
    FileStatus.KEPT: "changed by you",
    FileStatus.MISSING: "missing",
    FileStatus.UPDATED: "from another version",
    FileStatus.REMOVED: "not in this version",
}

TsharkOption = Annotated[str, typer.Option(metavar="PROGRAM", help="The tshark to ask for Wireshark's directories.")]

app = make_app("Install, remove or check the Wireshark plugin.")


@command(app, "[OPTIONS]", "Install or update the plugin and its profile.")
def install(
    messages: MessageOptions,
    tshark: TsharkOption = "tshark",
    force: Annotated[
        bool, typer.Option("--force", help="Replace files that you changed; your versions are kept as .orig.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the files and what would happen to them, and change nothing.")
    ] = False,
) -> None:
    """Install or update the plugin and the profile "IKE" for this user.

    Files that you changed are kept and named. No other settings are changed.
    """
    program = plugin_tshark.find_tshark(tshark)
    folders = _find_folders(tshark, program)
    with fail_command(PluginError):
        files = _list_files()
        if dry_run:
            _print_steps(installer.plan_installation(files, folders, force=force), verbose=True)
            print_result("Nothing was changed (--dry-run).")
            return
        steps = installer.install_files(files, folders, installed_version(), force=force)
    _print_steps(steps, verbose=messages.verbose)
    print_result(f"plugins in {_display(folders.plugins)}, profile in {_display(folders.profiles)}")
    for step in steps:
        if step.done is FileStatus.KEPT:
            messages.remark(f"{step.path} was changed since it was installed and is kept (--force replaces it)")
        elif step.done is FileStatus.REPLACED:
            messages.remark(f"{step.path} was replaced; your version is kept as .orig")
    if program is None:
        messages.remark(f"{tshark} not found: installed in Wireshark's default directories without a test")
    elif not _check_loaded(plugin_tshark.probe_lua(program), messages):
        raise typer.Exit(FAILED)
    print_result(f'Start Wireshark again, and choose the profile "{plugin_files.PROFILE}".')


@command(app, "[OPTIONS]", "Remove the plugin and its profile.")
def uninstall(messages: MessageOptions, tshark: TsharkOption = "tshark") -> None:
    """Remove what was installed, except for files that were changed since."""
    folders = _find_folders(tshark, plugin_tshark.find_tshark(tshark))
    with fail_command(PluginError):
        steps = installer.uninstall_files(folders.plugins)
    if steps is None:
        print_result(f"Nothing was installed in {_display(folders.plugins)}.")
        return
    _print_steps(steps, verbose=messages.verbose)
    for step in steps:
        if step.done is FileStatus.KEPT:
            messages.remark(f"{step.path} was changed since it was installed and is kept")
        elif step.done is FileStatus.RESTORED:
            messages.remark(f"{step.path} is your version again, which was kept as .orig")
    keys = folders.profiles.parent / plugin_files.KEY_FILE
    if keys.exists():
        messages.remark(f"{keys} has keys, and is kept: remove it if they are secret")


@command(app, "[OPTIONS]", "Show what is installed and what works.")
def status(messages: MessageOptions, tshark: TsharkOption = "tshark") -> None:
    """Show the versions of tshark and Lua, what works with them, and what is installed."""
    program = plugin_tshark.probe_tshark(tshark)
    folders = _find_folders(tshark, program)
    installed = manifest.read_manifest(folders.plugins)
    note = "" if folders.told else " (the default)"
    rows = [
        *_describe_program(tshark, program),
        ("plugins", _display(folders.plugins) + note),
        ("profiles", _display(folders.profiles) + note),
    ]
    steps: Sequence[FileChange] = []
    if installed is None:
        rows.append(("installed", "no (ikeanalyze wireshark install)"))
    else:
        with fail_command(PluginError):
            files = _list_files()
            steps = installer.compare_installation(files, installed)
        rows.append(("installed", _describe_installation(installed, steps)))
    rows += _describe_loaded(program, installed)
    rows += _describe_keys(folders)
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print_result(f"{name:{width}}  {value}")
    for step in steps:
        if step.done is not FileStatus.SAME:
            print_result(f"  {_STATES.get(step.done, str(step.done))}: {_display(step.path)}")
    _warn_superuser(messages)


def _list_files() -> list[PluginFile]:
    return plugin_files.list_plugin_files(plugin_files.find_dissectors(), plugin_files.find_command())


def _describe_keys(folders: WiresharkFolders) -> list[tuple[str, str]]:
    """The file with keys that the plugin reads by default, if there is one, and whether only its owner can read it."""
    path = folders.profiles.parent / plugin_files.KEY_FILE
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return []
    if os.name == "posix" and mode & (stat.S_IRGRP | stat.S_IROTH):
        return [("keys", f"{_display(path)}: other users can read it: chmod 600 {_display(path)}")]
    return [("keys", _display(path))]


def _describe_program(name: str, program: TsharkInfo | None) -> list[tuple[str, str]]:
    if program is None:
        return [("tshark", f"{name} not found, or not a tshark (Debian: apt install tshark)")]
    rows = [("tshark", program.version)]
    if program.lua is None:
        return [*rows, ("Lua", f"not available: {_explain_missing_lua()}")]
    rows.append(("Lua", program.lua.removeprefix("Lua ")))
    if program.ciphers:
        return [*rows, ("ciphers", "yes (GcryptCipher): the plugin decrypts with them")]
    return [*rows, ("ciphers", "none: the plugin decrypts with its own, which takes longer")]


def _explain_missing_lua() -> str:
    if plugin_tshark.is_superuser():
        return "Wireshark does not run Lua as root; use another user"
    return "Wireshark was built without Lua, or Lua is disabled"


def _describe_installation(installed: InstallManifest, steps: Sequence[FileChange]) -> str:
    outdated = sum(step.done is not FileStatus.SAME for step in steps)
    text = f"version {installed.version}, {len(installed.files)} files"
    if installed.version != installed_version():
        text += f" (this is ikeanalyze {installed_version()})"
    return text + (f"; {outdated} not up to date" if outdated else ", all up to date")


def _describe_loaded(program: TsharkInfo | None, installed: InstallManifest | None) -> list[tuple[str, str]]:
    if program is None or program.loaded is None:
        return []
    names = ", ".join(program.loaded)
    rows = [("loaded", names or "no")] if installed or names else []
    return rows + [("error", line) for line in program.complaints[:1]]


def _check_loaded(program: TsharkInfo, messages: MessageOptions) -> bool:
    """Return whether the installed plugin loads, as far as that can be tested; print why it does not."""
    name = f"{program.program} {program.version}"
    if program.loaded is None:
        messages.remark(f"{name} does not run Lua, so the plugin was not tested: {_explain_missing_lua()}")
        return True
    if "ikex" in program.loaded:
        for complaint in program.complaints[:1]:  # there may be another copy, whose version may be another one
            messages.remark(f"{name}: {complaint}")
        _warn_superuser(messages)
        return True
    reason = program.complaints[0] if program.complaints else "no error message"
    log_stderr(f"{name} does not load the plugin: {reason}")
    return False


def _warn_superuser(messages: MessageOptions) -> None:
    if plugin_tshark.is_superuser():
        messages.remark(
            "this is root's Wireshark. Since version 4.4, Wireshark and tshark do not run Lua as root: use another user"
        )


def _find_folders(name: str, program: TsharkInfo | None) -> WiresharkFolders:
    if program is None and name != "tshark":
        raise CommandError(f"{name} not found, or not a tshark")
    return (program and program.folders) or get_default_folders(os.environ, sys.platform)


def _print_steps(steps: Sequence[FileChange], *, verbose: bool) -> None:
    """Print what was done with each file or, unless `verbose`, with how many files."""
    if verbose:
        for step in steps:
            print_result(f"{step.done:10}  {_display(step.path)}")
        return
    for done, number in Counter(step.done for step in steps).items():
        print_result(f"{number} file{'s' if number > 1 else ''} {done}")


def _display(path: Path) -> str:
    """Return a path with ~ for the home directory and with control characters escaped."""
    text, home = str(path), str(Path.home())
    return escape_text(f"~{text[len(home) :]}" if text.startswith(f"{home}/") else text)
