"""`ikeanalyze keys`: inspect key files and logs, and convert the keys for other programs."""

import os
from collections.abc import Sequence
from enum import StrEnum
from io import StringIO
from typing import Annotated, Literal

import typer
from msgspec import structs

from ikeanalyze.cli.exit_status import (
    FAILED,
    SOME_SKIPPED,
    CommandError,
    convert_output_errors,
    fail_command,
    log_stderr,
)
from ikeanalyze.cli.options import MessageOptions, command, make_app
from ikeanalyze.cli.output_options import (
    NAMED_FORMAT_OPTION,
    SCHEMA_OPTION,
    OutputOptions,
    check_capture_name,
    check_inputs,
    choose_format,
    has_pcap_name,
)
from ikeanalyze.io.atomic_write import write_private
from ikeanalyze.keys.detect import KeyFile, KeyFileError, read_keys
from ikeanalyze.keys.export import UnexportedKey, build_key_json, build_wireshark_tables, write_tables
from ikeanalyze.keys.key_set import remove_repeated_key_sets
from ikeanalyze.render import Format, RenderOptions
from ikeanalyze.render.core.output import check_output, open_output
from ikeanalyze.render.core.values import format_count
from ikeanalyze.render.keys.formats import FORMATS
from ikeanalyze.render.keys.text import KeyList

app = make_app()


class KeyFormat(StrEnum):
    """A format that keys can be converted to."""

    WIRESHARK = "wireshark"
    JSON = "json"


class KeyOutputOptions(OutputOptions, frozen=True, kw_only=True):
    """How keys are written."""

    to: Annotated[
        KeyFormat | None,
        typer.Option(help="Write the keys: wireshark (a directory with its tables) or json (one file)."),
    ] = None
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="PATH",
            help="Output file or directory, readable only by you; - is standard output.",
        ),
    ] = "-"
    embed: Annotated[
        str | None,
        typer.Option(
            metavar="CAPTURE", help="Write a copy of this capture with the keys that decrypt its messages, as pcapng."
        ),
    ] = None
    show_secrets: Annotated[
        bool, typer.Option("--show-secrets", help="Show the keys themselves, also on standard output.")
    ] = False
    output_format: Annotated[Literal["terminal", "json"] | None, NAMED_FORMAT_OPTION] = None
    schema: Annotated[bool, SCHEMA_OPTION] = False


@command(app, "FILE... [OPTIONS]")
def keys(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", hidden=True)],
    output: KeyOutputOptions,
    messages: MessageOptions,
) -> None:
    """List the keys in files without showing them.

    For each key set of an IKE SA the list has its SPIs, its epoch (how often its keys changed before), its algorithms,
    and a fingerprint to compare it with other files.

    A FILE is a Wireshark key table (of IKEv2, IKEv1 or ESP) such as strongSwan's save-keys writes, a log of charon with
    ike = 4 or of libreswan with plutodebug=private, as written or in any format of Docker or journalctl, a secret file
    of tcpdump -E, or JSON from --to json; plain or compressed with gzip, zstd, xz or bzip2. The format is detected from
    the content. - is standard input.

    A FILE may also be a pcapng capture with keys that --embed put into it.

    --to wireshark writes the tables to a directory. If the keys of an IKE SA change during the handshake (RFC 9370), it
    writes one directory for each epoch, since Wireshark's table has room for one key set of each IKE SA.
    """
    if output.to is not None and output.output == "-" and not output.show_secrets:
        raise typer.BadParameter(
            "keys are secrets: name a file or directory with -o, or use --show-secrets for standard output",
            param_hint="--to",
        )
    if output.output_format is not None and (output.to is not None or output.embed is not None):
        raise typer.BadParameter(
            "is for the list of keys, not for --to and --embed, which write the keys", param_hint="--format"
        )
    is_list = output.to is None and output.embed is None
    output_format = choose_format(output.output_format, output.output, list(FORMATS)) if is_list else ""
    if output.to is KeyFormat.JSON:
        choose_format(Format.JSON, output.output, [Format.JSON])
    if output.embed is not None:
        _check_embedding(output)
    check_inputs({"FILE": files, "--embed": [] if output.embed is None else [output.embed]}, output.output)
    check_output(output.output, directory=output.to is KeyFormat.WIRESHARK)
    key_files: list[KeyFile] = []
    skipped: list[tuple[str, str]] = []
    for path in files:
        try:
            key_files.append(read_keys(path))
        except KeyFileError as error:
            skipped.append((path, str(error)))
    for file in key_files:
        messages.warn(file.path, [str(warning) for warning in file.warnings])
    for path, reason in skipped:
        log_stderr(reason if reason.startswith(path) or path == "-" else f"{path}: {reason}")
    if not key_files:
        raise typer.Exit(FAILED)
    if output.embed is not None:
        _embed(key_files, output.embed, output.output, messages)
    elif output.to is None:
        _list(KeyList(key_files, skipped, output.show_secrets), Format(output_format), output.output)
    else:
        _convert(key_files, output.to, output.output, messages)
    if skipped:
        raise typer.Exit(SOME_SKIPPED)


def _check_embedding(output: KeyOutputOptions) -> None:
    """Refuse options that do not fit --embed."""
    if output.to is not None:
        raise typer.BadParameter("--embed and --to exclude each other", param_hint="--embed")
    if output.output == "-":
        raise typer.BadParameter("keys are secrets: name the copy with -o", param_hint="--embed")
    check_capture_name(output.output)
    if output.embed == "-":
        raise typer.BadParameter("the capture is read twice and cannot be standard input", param_hint="--embed")


def _embed(files: Sequence[KeyFile], capture: str, output: str, messages: MessageOptions) -> None:
    """Write a copy of a capture with the keys that decrypt its messages, and no others."""
    # imported here because they load the analysis, which the other uses of this command do not need
    from ikeanalyze.analysis.options import ReadOptions
    from ikeanalyze.capture.formats.records import CaptureError
    from ikeanalyze.capture.write.secrets import embed_keys
    from ikeanalyze.cli.capture_options import CaptureOptions, read_captures
    from ikeanalyze.sharing.used_keys import ORIGIN, UsedKeyCollector

    used = UsedKeyCollector()
    options = ReadOptions(keys=tuple(files), lab_manifests=False, on_contents=used.take)
    read_captures([capture], CaptureOptions(), messages, options, keys_are="as FILE, and the capture with --embed")
    phase1 = {(key.cookie_i, key.key): key for file in files for key in file.phase1 if key.cookie_i in used.spis}
    if not used.key_sets and not phase1:
        raise CommandError(f"{capture}: the keys decrypt no message, so nothing was written")
    content = build_key_json(used.key_sets, [structs.replace(key, origin=ORIGIN) for key in phase1.values()], [])
    with fail_command(CaptureError), convert_output_errors(output):
        damage = embed_keys(capture, output, content.encode())
    messages.remark(f"{output}: a copy of {capture} with {format_count(len(used.key_sets) + len(phase1), 'key set')}")
    if has_pcap_name(output):
        messages.remark(f"{output}: written as pcapng, despite its name: pcap has no room for keys")
    if damage is not None:
        messages.remark(f"{capture}: {damage}")


def _list(listing: KeyList, output_format: Format, output: str) -> None:
    if output == "-":
        FORMATS.write(listing, output_format)
    else:
        text = StringIO()
        FORMATS.texts[output_format](listing, text, RenderOptions())
        with convert_output_errors(output):
            write_private(output, text.getvalue())


def _convert(files: Sequence[KeyFile], to: KeyFormat, output: str, messages: MessageOptions) -> None:
    key_sets = remove_repeated_key_sets([keys for file in files for keys in file.key_sets])
    phase1 = list({(key.cookie_i, key.key): key for file in files for key in file.phase1}.values())
    esp = [key for file in files for key in file.esp]
    if to is KeyFormat.JSON:
        content = build_key_json(key_sets, phase1, esp)
        if output != "-":
            with convert_output_errors(output):
                write_private(output, content)
            messages.remark(f"wrote {output}")
            return
    else:
        converted = build_wireshark_tables(key_sets, phase1, esp)
        _report_unexported(converted.unexported, messages)
        if not converted.files:
            raise CommandError("Wireshark's tables cannot hold any of the keys. --to json writes all of them")
        if output != "-":
            paths = [os.path.join(output, name) for name in converted.files]
            for path in paths:
                check_inputs({"FILE": [file.path for file in files]}, path)
            with convert_output_errors(output):
                write_tables(output, converted)
            for path in paths:
                messages.remark(f"wrote {path}")
            return
        content = "".join(f"# {name}\n{rows}" for name, rows in converted.files.items())
    with open_output(output) as stream:
        stream.write(content)


def _report_unexported(unexported: Sequence[UnexportedKey], messages: MessageOptions) -> None:
    """Print one line for each file and reason, since a log may have the keys of many IKE SAs."""
    alike: dict[tuple[str, str], list[UnexportedKey]] = {}
    for keys in unexported:
        alike.setdefault((keys.origin.path, keys.reason), []).append(keys)
    for (path, reason), (first, *others) in alike.items():
        where = path if first.origin.line is None else f"{path}: line {first.origin.line}"
        also = f" (also {format_count(len(others), 'more key')} of this file)" if others else ""
        messages.remark(f"{where}: not in Wireshark's table: {reason}{also}")
