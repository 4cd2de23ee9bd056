"""`ikeanalyze anonymize`: write an anonymised copy of a capture."""

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.cli.capture_options import (
    CaptureArgument,
    CaptureOptions,
    check_twice_readable,
    make_undecrypted_error,
    read_captures,
)
from ikeanalyze.cli.exit_status import SOME_SKIPPED, CommandError, convert_output_errors, fail_command
from ikeanalyze.cli.options import MessageOptions, command, make_app
from ikeanalyze.cli.output_options import advise_pcapng_name, check_capture_name, check_inputs
from ikeanalyze.cli.progress import make_progress_bar
from ikeanalyze.render.core.output import check_output
from ikeanalyze.render.core.values import format_count

if TYPE_CHECKING:
    from ikeanalyze.keys.key_set import KeySet
    from ikeanalyze.sharing.anonymize.capture import AnonymizationResult, KeyedContents
    from ikeanalyze.sharing.anonymize.pseudonyms import Pseudonyms

app = make_app()


class AnonymizationOptions(Struct, frozen=True, kw_only=True):
    """What is written besides the capture."""

    output: Annotated[
        str, typer.Option("-o", "--output", metavar="OUT.pcapng", help="Output file; - is standard output.")
    ]
    key: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Secret key of the pseudonyms, created if the file does not exist: captures with the same key get the "
            "same pseudonyms. Default: a new key, which is not kept.",
        ),
    ] = None
    write_keys: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Write the keys of the copy's messages to a JSON file for --keys. Needs --keys."
        ),
    ] = None


@command(app, "CAPTURE -o OUT.pcapng [--keys FILE] [OPTIONS]")
def anonymize(
    capture: CaptureArgument,
    inputs: CaptureOptions,
    output: AnonymizationOptions,
    messages: MessageOptions,
) -> None:
    """Write a copy of a capture without addresses, names and user data.

    IP addresses are mapped so that common prefixes stay, and names so that equal ones stay equal. Sizes and times stay,
    checksums are right, and a report of the copy has the same numbers. Packets that are not understood are dropped.

    Without --keys encrypted contents stay as they are: those who have the keys can read them. With --keys, messages are
    decrypted, anonymised and encrypted again with the same keys.

    CAPTURE is a pcap or pcapng file, plain or compressed with gzip or zstd. The output is pcapng.
    """
    named = [path for path in (output.key, output.write_keys) if path is not None]
    check_inputs({"CAPTURE": [capture], "--keys": inputs.keys, "--key": named}, output.output)
    for path in named:
        check_inputs({"CAPTURE": [capture], "--keys": inputs.keys}, path)
    check_twice_readable(capture)
    if output.write_keys is not None and not inputs.keys:
        raise typer.BadParameter("there are no keys to write without --keys", param_hint="--write-keys")
    if "-" in named:
        raise typer.BadParameter("keys are secrets: name a file", param_hint="--key")
    check_capture_name(output.output)
    check_output(output.output)
    if output.write_keys is not None:
        check_output(output.write_keys, option="--write-keys")
    # imported here because they load cryptography
    from ikeanalyze.sharing.anonymize.pseudonyms import (
        AnonymizationKeyError,
        Pseudonyms,
        load_or_create_key,
        make_key,
    )

    with fail_command(AnonymizationKeyError), convert_output_errors(output.key or "", "--key"):
        pseudonyms = Pseudonyms(make_key() if output.key is None else load_or_create_key(output.key))
    contents, key_sets, skipped = _read_keys(capture, inputs, messages, pseudonyms)
    from ikeanalyze.sharing.anonymize.capture import anonymize_capture

    progress_bar = make_progress_bar(quiet=messages.quiet)
    with fail_command(CaptureError), convert_output_errors(output.output), progress_bar as progress:
        result = anonymize_capture(
            capture, output.output, pseudonyms, ports=inputs.port, contents=contents, progress=progress
        )
    if output.write_keys is not None:
        _write_keys(output.write_keys, key_sets)
    _report_result(capture, result, messages)
    advise_pcapng_name(output.output, messages)
    if skipped:
        raise typer.Exit(SOME_SKIPPED)


def _read_keys(
    capture: str, inputs: CaptureOptions, messages: MessageOptions, pseudonyms: "Pseudonyms"
) -> "tuple[KeyedContents | None, list[KeySet], bool]":
    """What the keys decrypt, the key sets, and whether a key file was skipped."""
    if not inputs.keys:
        return None, [], False
    from ikeanalyze.sharing.anonymize.encrypted import EncryptedMessageRewriter

    rewriter = EncryptedMessageRewriter(pseudonyms)
    analysis = read_captures([capture], inputs, messages, ReadOptions(lab_manifests=False, on_contents=rewriter.take))
    contents = rewriter.get_contents()
    if not contents.opened:
        raise make_undecrypted_error(capture, analysis, inputs.keys)
    return contents, rewriter.used.key_sets, bool(analysis.skipped)


def _write_keys(path: str, key_sets: "list[KeySet]") -> None:
    from ikeanalyze.io.atomic_write import write_private
    from ikeanalyze.keys.export import build_key_json

    with convert_output_errors(path, "--write-keys"):
        write_private(path, build_key_json(key_sets, [], []))


def _report_result(capture: str, result: "AnonymizationResult", messages: MessageOptions) -> None:
    """Tell what was written, dropped, and left readable for those who have keys."""
    messages.remark(f"{capture}: {result.written:,} of {format_count(result.packets, 'packet')} written")
    if result.dropped:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(result.dropped.items()))
        messages.remark(f"{capture}: dropped, because they are not understood: {reasons}")
    if result.damage is not None:
        messages.remark(f"{capture}: {result.damage}")
    _report_encrypted(capture, result.encrypted, messages)
    if result.packets and not result.written:
        raise CommandError(f"{capture}: no packet is understood, so the copy is empty")


def _report_encrypted(capture: str, encrypted: Counter[str], messages: MessageOptions) -> None:
    if kept := encrypted["kept"]:
        text = f"{format_count(kept, 'encrypted message')} kept: those who have the keys can read what is inside"
        messages.remark(f"{capture}: {text}")
    if overwritten := encrypted["overwritten"]:
        text = f"{format_count(overwritten, 'encrypted message')} overwritten, which no key decrypts any more"
        messages.remark(f"{capture}: {text}")
