"""`ikeanalyze keys`: what is in key files and logs, and the same keys for other programs."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ikeanalyze.cli.outcome import FAILED, SOME_SKIPPED, FailureError, job, say
from ikeanalyze.cli.reading import Quiet, Verbose
from ikeanalyze.cli.writing import chosen_format

if TYPE_CHECKING:
    from ikeanalyze.keys.files import KeyFile
    from ikeanalyze.keys.write import Tables
    from ikeanalyze.render import Format
    from ikeanalyze.render.keys import Listing

_FEW_WARNINGS: Final = 10


def keys(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", hidden=True)],
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="FORM",
            help="Write the keys out: wireshark (a directory with its tables) or json (one file).",
        ),
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="PATH",
            help="Where to write, readable for you alone; - is standard output.",
        ),
    ] = "-",
    reveal: Annotated[
        bool, typer.Option("--reveal", help="Show the keys themselves, also on standard output.")
    ] = False,
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="Of the list: terminal or json.")
    ] = "terminal",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """List the keys in files, without showing them.

    For each key set of an IKE SA its SPIs, its epoch (the number of additional key exchanges before it), its
    algorithms, and a fingerprint by which to compare it with another file's.

    A FILE is a Wireshark key table (of IKEv2, IKEv1 or ESP) such as strongSwan's save-keys writes, a log of
    charon with ike = 4 or of libreswan with plutodebug=private, a secret file of tcpdump -E, or JSON from --to
    json; compressed with gzip or zstd or not. - is standard input. Which it is, is found by its content.

    With --to wireshark the tables are written to a directory; where the keys of an IKE SA change on the way
    (RFC 9370) to one directory for each epoch, since Wireshark's table has room for one set of each IKE SA.
    """
    with job(verbose=verbose):
        from ikeanalyze.render.keys import Listing
        from ikeanalyze.render.keys_formats import FORMATS

        chosen = chosen_format(FORMATS, form)
        _check(files, to, output, reveal=reveal)
        read, skipped = _read(files)
        if not quiet:
            _warn(read, everything=verbose)
        for path, reason in skipped:
            say(reason if reason.startswith(path) or path == "-" else f"{path}: {reason}")
        if not read:
            raise typer.Exit(FAILED)
        if to is None:
            _list(Listing(read, skipped, reveal), chosen, output)
        else:
            _write(read, to, output, files, quiet=quiet)
        if skipped:
            raise typer.Exit(SOME_SKIPPED)


def _check(files: Sequence[str], to: str | None, output: str, *, reveal: bool) -> None:
    """Refuse what cannot be meant."""
    if to not in (None, "wireshark", "json"):
        raise typer.BadParameter(f"there is no {to!r}; there are wireshark, json", param_hint="--to")
    if to is not None and output == "-" and not reveal:
        raise typer.BadParameter(
            "keys are secrets: name a file or directory with -o, or say --reveal to have them on standard output",
            param_hint="--to",
        )
    if files.count("-") > 1:
        raise typer.BadParameter("standard input can be read only once", param_hint="FILE")
    if "-" in files and sys.stdin is not None and sys.stdin.isatty():
        raise typer.BadParameter("standard input is a terminal; pipe a file into it or name one", param_hint="FILE")
    _spare(files, output)


def _spare(files: Sequence[str], output: str) -> None:
    """Refuse to write over one of the files that are read."""
    for path in files:
        if "-" in (path, output):
            continue
        try:
            same = os.path.isfile(path) and os.path.samefile(path, output)
        except OSError:
            continue
        if same:
            raise typer.BadParameter(f"{output} is one of the files, it would be overwritten", param_hint="-o")


def _read(files: Sequence[str]) -> "tuple[list[KeyFile], list[tuple[str, str]]]":
    """What could be read, and what could not with the reason."""
    from ikeanalyze.keys.files import KeyFileError, read_keys

    read, skipped = [], []
    for path in files:
        try:
            read.append(read_keys(path))
        except KeyFileError as error:
            skipped.append((path, str(error)))
    return read, skipped


def _warn(files: "Sequence[KeyFile]", *, everything: bool) -> None:
    for file in files:
        shown = file.warnings if everything else file.warnings[:_FEW_WARNINGS]
        for warning in shown:
            say(str(warning))
        if len(file.warnings) > len(shown):
            say(f"{file.path}: {len(file.warnings) - len(shown):,} more warnings. --verbose shows all of them")


def _list(listing: "Listing", form: "Format", output: str) -> None:
    from io import StringIO

    from ikeanalyze.render import View
    from ikeanalyze.render.keys_formats import FORMATS

    if output == "-":
        FORMATS.write(listing, form)
    else:
        text = StringIO()
        FORMATS.texts[form](listing, text, View())
        _private(output, text.getvalue())


def _write(files: "Sequence[KeyFile]", to: str, output: str, paths: Sequence[str], *, quiet: bool) -> None:
    from ikeanalyze.keys.epochs import distinct
    from ikeanalyze.keys.write import json_text, tables
    from ikeanalyze.render.output import opened

    key_sets = distinct([keys for file in files for keys in file.key_sets])
    phase1 = list({(key.cookie_i, key.key): key for file in files for key in file.phase1}.values())
    esp = [key for file in files for key in file.esp]
    if to == "json":
        content = json_text(key_sets, phase1, esp)
        if output != "-":
            _private(output, content)
            return
    else:
        made = tables(key_sets, phase1, esp)
        if not quiet:
            for left in made.left_out:
                where = left.origin.path if left.origin.line is None else f"{left.origin.path}: line {left.origin.line}"
                say(f"{where}: not in Wireshark's table: {left.why}")
        if not made.files:
            raise FailureError("no key that Wireshark's tables have room for. --to json takes all")
        if output != "-":
            _directory(output, made, paths, quiet=quiet)
            return
        content = "".join(f"# {name}\n{rows}" for name, rows in made.files.items())
    with opened(output) as stream:
        stream.write(content)


def _directory(output: str, made: "Tables", paths: Sequence[str], *, quiet: bool) -> None:
    from ikeanalyze.keys.write import write_tables
    from ikeanalyze.render.output import cannot_write

    for name in made.files:
        _spare(paths, os.path.join(output, name))
    try:
        write_tables(output, made)
    except OSError as error:
        raise cannot_write(output, error) from None
    for name in () if quiet else made.files:
        say(f"wrote {os.path.join(output, name)}")


def _private(output: str, content: str) -> None:
    from ikeanalyze.keys.write import write_private
    from ikeanalyze.render.output import cannot_write

    try:
        write_private(output, content)
    except OSError as error:
        raise cannot_write(output, error) from None
