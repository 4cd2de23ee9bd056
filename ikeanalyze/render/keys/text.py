"""The keys in key files as text; secrets only with --reveal."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TextIO

from ikeanalyze.crypto.algorithms import ENCRYPTION, get_encryption_name, get_integrity_name
from ikeanalyze.keys.detect import KeyFile
from ikeanalyze.keys.key_set import EspKey, KeySet, Phase1Key, compute_fingerprint, number_epochs
from ikeanalyze.render import RenderOptions
from ikeanalyze.render.core.section import Columns, TableSection, tabulate
from ikeanalyze.render.core.table import TableColumn, fit_columns, format_lines
from ikeanalyze.render.core.terminal import TextStyler, format_facts
from ikeanalyze.render.core.values import escape_text, format_count

_MISSING: Final = "not said"
SECRETS: Final = ("sk_d", "sk_ai", "sk_ar", "sk_ei", "sk_er", "sk_pi", "sk_pr")


@dataclass(frozen=True, slots=True)
class KeyList:
    """The key files to list."""

    files: Sequence[KeyFile]
    skipped: Sequence[tuple[str, str]]  # paths of files that could not be read, with reasons
    reveal: bool  # with the secrets


def write_key_list(listing: KeyList, out: TextIO, view: RenderOptions) -> None:
    """Write the keys of each file as text."""
    paint = TextStyler(out, view.width)
    for number, file in enumerate(listing.files):
        if number:
            out.write("\n")
        for line in _render_file(file, paint, reveal=listing.reveal):
            out.write((line if paint.unicode else line.replace("…", "~")) + "\n")


def _render_file(file: KeyFile, paint: TextStyler, *, reveal: bool) -> Iterator[str]:
    yield paint(escape_text(file.path), "bold cyan")
    same = {_describe_algorithms(keys) for keys in file.key_sets}
    facts = [("format", ", ".join(file.formats))]
    if file.key_sets:
        facts.append(("IKEv2", format_count(len(file.key_sets), "key set")))
    if len(same) == 1:
        facts.append(("algorithms", next(iter(same))))
        sizes = {_describe_sizes(keys) for keys in file.key_sets}
        if len(sizes) == 1:
            facts.append(("key sizes", next(iter(sizes))))
    if file.phase1:
        facts.append(("IKEv1", format_count(len(file.phase1), "key")))
    if file.esp:
        facts.append(("ESP", format_count(len(file.esp), "SA")))
    yield from format_facts(facts, paint)
    if file.key_sets:
        epochs = zip(file.key_sets, number_epochs(file.key_sets), strict=True)
        # the last two columns are omitted if their values are listed above
        columns = _SET_COLUMNS[:-2] if len(same) == 1 else _SET_COLUMNS
        yield from _format_table(tabulate("IKEv2 key sets", list(epochs), columns), paint)
    if file.phase1:
        yield from _format_table(tabulate("IKEv1 keys", file.phase1, _PHASE1_COLUMNS), paint)
    if file.esp:
        yield from _format_table(tabulate("ESP", file.esp, _ESP_COLUMNS), paint)
    if reveal:
        yield from _reveal_keys(file, paint)


def _format_summary_line(key: KeySet | Phase1Key | EspKey) -> str | None:
    return None if key.origin.line is None else str(key.origin.line)


_SET_COLUMNS: Final[Columns[tuple[KeySet, int | None]]] = (
    (TableColumn("SPIi"), lambda row: _MISSING if row[0].spi_i is None else row[0].spi_i.hex()),
    (TableColumn("SPIr"), lambda row: _MISSING if row[0].spi_r is None else row[0].spi_r.hex()),
    (TableColumn("epoch", right=True), lambda row: _MISSING if row[1] is None else str(row[1])),
    (TableColumn("fingerprint"), lambda row: compute_fingerprint(row[0])),
    (TableColumn("line", right=True), lambda row: _format_summary_line(row[0])),
    (TableColumn("algorithms", narrow=16), lambda row: _describe_algorithms(row[0])),
    (TableColumn("key sizes", optional=1), lambda row: _describe_sizes(row[0])),
)
_PHASE1_COLUMNS: Final[Columns[Phase1Key]] = (
    (TableColumn("cookie of the initiator"), lambda key: key.cookie_i.hex()),
    (TableColumn("key", right=True), lambda key: f"{len(key.key)} bytes"),
    (TableColumn("fingerprint"), compute_fingerprint),
    (TableColumn("line", right=True), _format_summary_line),
)
_ESP_COLUMNS: Final[Columns[EspKey]] = (
    (TableColumn("SPI"), lambda key: "any" if key.spi is None else f"{key.spi:08x}"),
    (TableColumn("source", narrow=11), lambda key: key.source),
    (TableColumn("destination", narrow=11), lambda key: key.destination),
    (TableColumn("fingerprint"), compute_fingerprint),
    (TableColumn("line", right=True), _format_summary_line),
    (TableColumn("algorithms", narrow=16), lambda key: f"{key.encryption}, {key.integrity}"),
)


def _format_table(table: TableSection, paint: TextStyler) -> Iterator[str]:
    yield ""
    yield paint(table.title, "bold")
    heading, *lines = format_lines(table.columns, table.rows, fit_columns(table.columns, table.rows, paint.width - 2))
    yield "  " + paint(heading, "dim")
    yield from (f"  {line}" for line in lines)


def _describe_algorithms(keys: KeySet) -> str:
    """Encryption with the key length in bits, and integrity."""
    encryption = get_encryption_name(keys.encryption)
    if encryption is None:
        return _MISSING
    if (bits := key_bits(keys)) is not None:
        encryption += f"-{bits}"
    if keys.unchecked_icv is not None:
        return f"{encryption}, {keys.unchecked_icv} bytes of ICV not checked"
    integrity = get_integrity_name(keys.integrity)
    if integrity is None or keys.integrity == 0:
        return encryption
    return f"{encryption}, {integrity}"


def key_bits(keys: KeySet) -> int | None:
    """Return the key length in bits of an algorithm with several key lengths, otherwise None."""
    algorithm = None if keys.encryption is None else ENCRYPTION.get(keys.encryption)
    if algorithm is None or len(algorithm.key_sizes) == 1:
        return None
    size = len(keys.sk_ei or keys.sk_er) - (0 if keys.no_salt else algorithm.salt)
    return size * 8 if size in algorithm.key_sizes else None


def _describe_sizes(keys: KeySet) -> str:
    """The sizes of the keys in bytes."""
    parts = [f"SK_e {_describe_size_pair(keys.sk_ei, keys.sk_er)}"]
    if keys.sk_ai or keys.sk_ar:
        parts.append(f"SK_a {_describe_size_pair(keys.sk_ai, keys.sk_ar)}")
    if keys.sk_d is not None:
        parts.append(f"SK_d {len(keys.sk_d)}")
    return ", ".join(parts) + " bytes" + (", without salt" if keys.no_salt else "")


def _describe_size_pair(i: bytes, r: bytes) -> str:
    return str(len(i)) if len(i) == len(r) else f"{len(i)} and {len(r)}"


def _reveal_keys(file: KeyFile, paint: TextStyler) -> Iterator[str]:
    """The secrets without line breaks, so that they can be copied."""
    keys: list[KeySet | Phase1Key | EspKey] = [*file.key_sets, *file.phase1, *file.esp]
    for key in keys:
        yield ""
        yield paint(compute_fingerprint(key), "bold")
        match key:
            case KeySet():
                secrets = ((f"SK_{name.removeprefix('sk_')}", getattr(key, name)) for name in SECRETS)
                yield from (f"  {name:5}  {secret.hex()}" for name, secret in secrets if secret)
            case Phase1Key():
                yield f"  key    {key.key.hex()}"
            case EspKey():
                yield f"  encryption  {key.encryption_key.hex()}"
                yield f"  integrity   {key.integrity_key.hex()}"
