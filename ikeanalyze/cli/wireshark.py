"""`ikeanalyze wireshark`: the Wireshark plugin on this machine, put in place, taken away, looked at."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ikeanalyze.cli.outcome import FAILED, FailureError, job, say, show

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ikeanalyze.plugin.files import Done, Step
    from ikeanalyze.plugin.folders import Folders
    from ikeanalyze.plugin.manifest import Manifest
    from ikeanalyze.plugin.probe import Tshark

Program = Annotated[
    str,
    typer.Option("--tshark", metavar="PROGRAM", help="The tshark that is asked where Wireshark's folders are."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No remarks on standard error.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Each file by name, and tracebacks of internal errors.")]


def install(
    tshark: Program = "tshark",
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace files that you have changed; yours stay beside them, as .orig."),
    ] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Install the plugin and the profile "IKE" for this user, or update them.

    Files that you have changed since stay as they are, and that is said. No other setting is touched.
    """
    with job(verbose=verbose):
        from ikeanalyze import __version__
        from ikeanalyze.plugin import PluginError, files, probe, source

        found = probe.ask(tshark)
        folders = _folders(tshark, found)
        try:
            steps = files.install(source.plugin_files(source.folder()), folders, __version__, force=force)
        except PluginError as error:
            raise FailureError(str(error)) from None
        _print_steps(steps, verbose=verbose)
        remark = _remarks(quiet=quiet)
        for step in steps:
            if step.done is files.Done.KEPT:
                remark(f"{step.path} is not as it was installed, so it stays as it is (--force replaces it)")
            elif step.done is files.Done.REPLACED:
                remark(f"{step.path} was replaced; your version of it is beside it, as .orig")
        if found is None:
            remark(f"there is no {tshark} to ask, so the plugin went to Wireshark's usual folders, untried")
        elif not _works(probe.ask_lua(found), remark):
            raise typer.Exit(FAILED)
        show(f'Start Wireshark again, and choose the profile "{source.PROFILE}".')


def uninstall(tshark: Program = "tshark", quiet: Quiet = False, verbose: Verbose = False) -> None:
    """Take away what was installed, except for files that were changed since."""
    with job(verbose=verbose):
        from ikeanalyze.plugin import PluginError, files, probe

        folders = _folders(tshark, probe.ask(tshark))
        try:
            steps = files.uninstall(folders.plugins)
        except PluginError as error:
            raise FailureError(str(error)) from None
        if steps is None:
            show(f"Nothing was installed in {_shown(folders.plugins)}.")
            return
        _print_steps(steps, verbose=verbose)
        for step in steps:
            if step.done is files.Done.KEPT:
                _remarks(quiet=quiet)(f"{step.path} is not as it was installed, so it stays")


def status(tshark: Program = "tshark", quiet: Quiet = False, verbose: Verbose = False) -> None:
    """Say which tshark and which Lua there is, what works there, and what is installed."""
    with job(verbose=verbose):
        from ikeanalyze.plugin import PluginError, files, manifest, probe, source

        found = probe.ask(tshark)
        folders = _folders(tshark, found)
        installed = manifest.read(folders.plugins)
        rows = [*_program_rows(tshark, found)]
        note = "" if folders.told else " (the usual place)"
        rows += [("plugins", _shown(folders.plugins) + note), ("profiles", _shown(folders.profiles) + note)]
        steps: Sequence[Step] = []
        if installed is None:
            rows.append(("installed", "no: ikeanalyze wireshark install"))
        else:
            try:
                steps = files.state(source.plugin_files(source.folder()), installed)
            except PluginError as error:
                raise FailureError(str(error)) from None
            rows.append(("installed", _installed(installed, steps)))
        rows += _loaded_rows(found, installed)
        width = max(len(name) for name, _ in rows)
        for name, value in rows:
            show(f"{name:{width}}  {value}")
        for step in steps:
            if step.done is not files.Done.SAME:
                show(f"  {_state_word(step.done)}: {_shown(step.path)}")
        _warn_superuser(_remarks(quiet=quiet))


def _program_rows(program: str, found: "Tshark | None") -> list[tuple[str, str]]:
    if found is None:
        return [("tshark", f"{program} is not there, or is no tshark (Debian: apt install tshark)")]
    rows = [("tshark", found.version)]
    if found.lua is None:
        rows.append(("Lua", f"none is run: {_why_no_lua()}"))
        return rows
    rows.append(("Lua", found.lua.removeprefix("Lua ")))
    if found.ciphers:
        rows.append(("ciphers", "yes: the plugin decrypts (GcryptCipher)"))
    else:
        rows.append(("ciphers", "none: ikeanalyze decrypt writes captures in clear instead"))
    return rows


def _why_no_lua() -> str:
    from ikeanalyze.plugin.probe import superuser

    if superuser():
        return "this version runs no Lua for root, so ask as an ordinary user"
    return "built without it, or switched off"


def _installed(installed: "Manifest", steps: "Sequence[Step]") -> str:
    from ikeanalyze import __version__
    from ikeanalyze.plugin.files import Done

    odd = sum(step.done is not Done.SAME for step in steps)
    text = f"version {installed.version}, {len(installed.files)} files"
    if installed.version != __version__:
        text += f" (this is ikeanalyze {__version__})"
    return text + (f"; {odd} not up to date" if odd else ", all up to date")


def _loaded_rows(found: "Tshark | None", installed: "Manifest | None") -> list[tuple[str, str]]:
    if found is None or found.loaded is None:
        return []
    names = ", ".join(found.loaded)
    rows = [("loaded", names or "no")] if installed or names else []
    return rows + [("complaint", line) for line in found.complaints[:1]]


def _state_word(done: "Done") -> str:
    from ikeanalyze.plugin.files import Done

    return {
        Done.KEPT: "changed by you",
        Done.MISSING: "missing",
        Done.UPDATED: "of another version",
        Done.REMOVED: "no more in this version",
    }.get(done, str(done))


def _remarks(*, quiet: bool) -> "Callable[[str], object]":
    """What to call with what the user should know, though nothing is wrong."""
    return (lambda _: None) if quiet else say


def _works(found: "Tshark", remark: "Callable[[str], object]") -> bool:
    """Does the plugin load, now that it is there? What is wrong is said."""
    name = f"{found.program} {found.version}"
    if found.loaded is None:
        remark(f"{name} runs no Lua now, so the plugin is untried: {_why_no_lua()}")
        return True
    if "ikex" in found.loaded:
        _warn_superuser(remark)
        return True
    why = found.complaints[0] if found.complaints else "it does not say why"
    say(f"{name} does not load the plugin: {why}")
    return False


def _warn_superuser(remark: "Callable[[str], object]") -> None:
    from ikeanalyze.plugin.probe import superuser

    if superuser():
        remark("this is root's Wireshark. From 4.4 on Wireshark and tshark run no Lua for root: use another user")


def _folders(program: str, found: "Tshark | None") -> "Folders":
    import os

    from ikeanalyze.plugin.folders import usual

    if found is None and program != "tshark":
        raise FailureError(f"{program} is not there, or is no tshark")
    return (found and found.folders) or usual(os.environ, sys.platform)


def _print_steps(steps: "Sequence[Step]", *, verbose: bool) -> None:
    """How many files, by folder and by what became of them; with `verbose` each."""
    from collections import Counter

    if verbose:
        for step in steps:
            show(f"{step.done:10}  {_shown(step.path)}")
        return
    counted = Counter(step.done for step in steps)
    for done, count in counted.items():
        show(f"{count} file{'s' if count > 1 else ''} {done}")


def _shown(path: "Path") -> str:
    """As the user writes it, and harmless to a terminal."""
    from pathlib import Path

    from ikeanalyze.render.values import clean

    text = str(path)
    home = str(Path.home())
    if text.startswith(f"{home}/"):
        text = f"~{text[len(home) :]}"
    return clean(text)


app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="The Wireshark plugin: install it, take it away, see what works.",
)
app.command(options_metavar="[OPTIONS]", short_help="Install or update the plugin and its profile.")(install)
app.command(options_metavar="[OPTIONS]", short_help="Take away what was installed.")(uninstall)
app.command(options_metavar="[OPTIONS]", short_help="What there is, and what works.")(status)
