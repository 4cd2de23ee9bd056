"""The keys in key files as text; secrets only with --reveal."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Final, TextIO

from ikeanalyze.crypto.algorithms import ENCRYPTION, get_encryption_name, get_integrity_name
from ikeanalyze.keys.detect import KeyFile
from ikeanalyze.keys.key_set import EspKey, KeySet, Phase1Key, compute_fingerprint, number_epochs
from ikeanalyze.render import RenderOptions
from ikeanalyze.render.core.table import TableColumn, fit_columns, format_lines, pad_text
from ikeanalyze.render.core.terminal import TextStyler
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
        for line in _file(file, paint, reveal=listing.reveal):
            out.write((line if paint.unicode else line.replace("…", "~")) + "\n")


def _file(file: KeyFile, paint: TextStyler, *, reveal: bool) -> Iterator[str]:
    yield paint(escape_text(file.path), "bold cyan")
    same = {_algorithms(keys) for keys in file.key_sets}
    facts = [("format", ", ".join(file.formats))]
    if file.key_sets:
        facts.append(("IKEv2", format_count(len(file.key_sets), "key set")))
    if len(same) == 1:
        facts.append(("algorithms", next(iter(same))))
        sizes = {_sizes(keys) for keys in file.key_sets}
        if len(sizes) == 1:
            facts.append(("key sizes", next(iter(sizes))))
    if file.phase1:
        facts.append(("IKEv1", format_count(len(file.phase1), "key")))
    if file.esp:
        facts.append(("ESP", format_count(len(file.esp), "SA")))
    names = max(len(name) for name, _ in facts)
    for name, value in facts:
        texts = wrap(value, paint.width - names - 4, break_on_hyphens=False)
        yield f"  {paint(pad_text(name, names), 'dim')}  {texts[0]}"
        for text in texts[1:]:
            yield " " * (names + 4) + text
    if file.key_sets:
        yield from _table("IKEv2 key sets", _SET_COLUMNS, _set_rows(file), paint, narrow=len(same) == 1)
    if file.phase1:
        rows = [
            (key.cookie_i.hex(), f"{len(key.key)} bytes", compute_fingerprint(key), _line(key)) for key in file.phase1
        ]
        yield from _table("IKEv1 keys", _PHASE1_COLUMNS, rows, paint)
    if file.esp:
        yield from _table("ESP", _ESP_COLUMNS, [_esp_row(key) for key in file.esp], paint)
    if reveal:
        yield from _revealed(file, paint)


_SET_COLUMNS: Final = (
    TableColumn("SPIi"),
    TableColumn("SPIr"),
    TableColumn("epoch", right=True),
    TableColumn("fingerprint"),
    TableColumn("line", right=True),
    TableColumn("algorithms", narrow=16),
    TableColumn("key sizes", optional=1),
)
_PHASE1_COLUMNS: Final = (
    TableColumn("cookie of the initiator"),
    TableColumn("key", right=True),
    TableColumn("fingerprint"),
    TableColumn("line", right=True),
)
_ESP_COLUMNS: Final = (
    TableColumn("SPI"),
    TableColumn("source", narrow=11),
    TableColumn("destination", narrow=11),
    TableColumn("fingerprint"),
    TableColumn("line", right=True),
    TableColumn("algorithms", narrow=16),
)


def _table(
    title: str,
    columns: Sequence[TableColumn],
    rows: Sequence[Sequence[str]],
    paint: TextStyler,
    *,
    narrow: bool = False,
) -> Iterator[str]:
    """A table; `narrow`: without its last two columns, because their values are listed above."""
    if narrow:
        columns, rows = columns[:-2], [row[:-2] for row in rows]
    yield ""
    yield paint(title, "bold")
    fitted = fit_columns(columns, rows, paint.width - 2)
    text = format_lines(columns, rows, fitted)
    yield "  " + paint(next(text), "dim")
    for line in text:
        yield "  " + line


def _set_rows(file: KeyFile) -> list[tuple[str, ...]]:
    return [
        (
            _MISSING if keys.spi_i is None else keys.spi_i.hex(),
            _MISSING if keys.spi_r is None else keys.spi_r.hex(),
            _MISSING if epoch is None else str(epoch),
            compute_fingerprint(keys),
            _line(keys),
            _algorithms(keys),
            _sizes(keys),
        )
        for keys, epoch in zip(file.key_sets, number_epochs(file.key_sets), strict=True)
    ]


def _algorithms(keys: KeySet) -> str:
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


def _sizes(keys: KeySet) -> str:
    """The sizes of the keys in bytes."""
    parts = [f"SK_e {_both(keys.sk_ei, keys.sk_er)}"]
    if keys.sk_ai or keys.sk_ar:
        parts.append(f"SK_a {_both(keys.sk_ai, keys.sk_ar)}")
    if keys.sk_d is not None:
        parts.append(f"SK_d {len(keys.sk_d)}")
    return ", ".join(parts) + " bytes" + (", without salt" if keys.no_salt else "")


def _both(i: bytes, r: bytes) -> str:
    return str(len(i)) if len(i) == len(r) else f"{len(i)} and {len(r)}"


def _esp_row(key: EspKey) -> tuple[str, ...]:
    return (
        "any" if key.spi is None else f"{key.spi:08x}",
        escape_text(key.source),
        escape_text(key.destination),
        compute_fingerprint(key),
        _line(key),
        f"{key.encryption}, {key.integrity}",
    )


def _line(key: KeySet | Phase1Key | EspKey) -> str:
    return "-" if key.origin.line is None else str(key.origin.line)


def _revealed(file: KeyFile, paint: TextStyler) -> Iterator[str]:
    """The secrets without line breaks, so that they can be copied."""
    for keys in file.key_sets:
        yield ""
        yield paint(compute_fingerprint(keys), "bold")
        for name in SECRETS:
            if value := getattr(keys, name):
                yield f"  {_format_key_name(name)}  {value.hex()}"
    for key in file.phase1:
        yield ""
        yield paint(compute_fingerprint(key), "bold")
        yield f"  key    {key.key.hex()}"
    for esp in file.esp:
        yield ""
        yield paint(compute_fingerprint(esp), "bold")
        yield f"  encryption  {esp.encryption_key.hex()}"
        yield f"  integrity   {esp.integrity_key.hex()}"


def _format_key_name(name: str) -> str:
    return pad_text("SK_" + name.removeprefix("sk_"), 5)
