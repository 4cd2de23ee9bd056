"""Large tables of Wireshark become one array; each key set is that of its row."""

import random

import numpy as np
import pytest

from ikeanalyze.keys.detect import read_keys
from ikeanalyze.keys.key_ring import KeyRing
from ikeanalyze.keys.key_table import KeySetTable, join_key_sets

GCM, NONE = "AES-GCM-256 with 16 octet ICV [RFC5282]", "NONE [RFC4306]"
CBC, SHA1 = "AES-CBC-128 [RFC3602]", "HMAC_SHA1_96 [RFC2404]"
#: More rows than a table needs at least.
ROWS = 1500


def gcm_row(number: int) -> str:
    return f'{number:016x},{number + 1:016X},{number + 2:072x},{number + 3:072x},"{GCM}","","","{NONE}"\n'


def cbc_row(number: int) -> str:
    cells = ",".join(f"{number + place:0{digits}x}" for place, digits in enumerate((16, 16, 32, 32)))
    return f'{cells},"{CBC}",{number + 4:040x},{number + 5:040x},"{SHA1}"\n'


def read(tmp_path, text: str):
    path = tmp_path / "ikev2_decryption_table"
    path.write_text(text)
    return read_keys(str(path))


def values_of(keys) -> list[int]:
    return [int.from_bytes(value) for value in (keys.spi_i, keys.spi_r, keys.sk_ei, keys.sk_er, keys.sk_ai, keys.sk_ar)]


@pytest.mark.parametrize(
    ("row", "transforms", "expected"),
    [(gcm_row, (20, 0), [0, 1, 2, 3, None, None]), (cbc_row, (12, 2), [0, 1, 2, 3, 4, 5])],
)
def test_key_sets_of_a_table_are_those_of_its_rows(tmp_path, row, transforms, expected):
    file = read(tmp_path, "".join(row(10 * number) for number in range(ROWS)))
    assert isinstance(file.key_sets, KeySetTable)
    assert len(file.key_sets) == ROWS
    for number in (0, 1, ROWS - 1):
        keys = file.key_sets[number]
        assert values_of(keys) == [0 if value is None else 10 * number + value for value in expected]
        assert (keys.encryption, keys.integrity, keys.origin.line) == (*transforms, number + 1)
        assert (len(keys.sk_ei), len(keys.sk_ai)) == ((36, 0) if row is gcm_row else (16, 20))
    assert file.key_sets[-1] == file.key_sets[ROWS - 1]
    assert file.key_sets[2:4] == [file.key_sets[2], file.key_sets[3]]


def test_secrets_of_a_table_are_not_shown(tmp_path):
    secret = 0x5EC2E7_5EC2E7_0000  # longer than the address of an object, which repr may show
    shown = repr(read(tmp_path, "".join(map(gcm_row, range(secret, secret + ROWS)))).key_sets)
    assert "5ec2e7" not in shown.lower()


def change_digit(line: str) -> str:
    return "x" + line[1:]


@pytest.mark.parametrize(
    "change",
    [
        change_digit,
        lambda line: line.replace("256", "999"),
        lambda line: "# a comment\n",
        lambda line: "\n" + line,
        lambda line: line.replace('""', '" "'),
        lambda line: line.replace(",", ", ", 1),
        lambda line: cbc_row(7),
        lambda line: '"' + line[:16] + '"' + line[16:],
        lambda line: line[:-1],
    ],
    ids=["digit", "name", "comment", "empty line", "space", "space after a comma", "other algorithms", "quotes", "end"],
)
@pytest.mark.parametrize("place", [3, 700, ROWS - 1])
def test_changed_rows_are_read_as_one_by_one(tmp_path, monkeypatch, change, place):
    lines = [gcm_row(10 * number) for number in range(ROWS)]
    lines[place] = change(lines[place])
    text = "".join(lines)
    table = read(tmp_path, text)
    monkeypatch.setattr("ikeanalyze.keys.wireshark._MIN_TABLE_ROWS", ROWS + 1)
    rows = read(tmp_path, text)
    assert isinstance(rows.key_sets, list)
    assert list(table.key_sets) == rows.key_sets
    assert (table.warnings, table.formats) == (rows.warnings, rows.formats)


def test_tables_are_read_in_blocks(tmp_path):
    """A block has a megabyte."""
    lines = list(map(gcm_row, range(12_000)))
    random.Random(1).shuffle(lines)
    assert sum(map(len, lines)) > 2 << 20
    key_sets = read(tmp_path, "".join(lines)).key_sets
    assert isinstance(key_sets, KeySetTable)
    assert [int(spi) for spi in key_sets.spi_i] == [int(line[:16], 16) for line in lines]
    assert key_sets.lines.tolist() == list(range(1, 12_001))


def test_tables_of_several_files_are_joined_as_objects(tmp_path):
    one, two = (read(tmp_path, "".join(row(number) for number in range(ROWS))).key_sets for row in (gcm_row, cbc_row))
    assert join_key_sets([one, [], two]) == [*one, *two]
    assert join_key_sets([[], one]) is one


def test_a_ring_of_a_table_merges_repeated_keys(tmp_path):
    """As in a table that has been concatenated with itself."""
    keys = [f"{number:016x}{'5a' * 28}" for number in range(ROWS)]
    lines = [f'{key[:16]},{1:016x},{key},{key},"{GCM}","","","{NONE}"\n' for key in keys]
    table = read(tmp_path, "".join(lines)).key_sets
    doubled = read(tmp_path, "".join(lines * 2)).key_sets
    assert isinstance(table, KeySetTable)
    assert isinstance(doubled, KeySetTable)
    named, merged = (KeyRing(key_sets).list_named_key_sets() for key_sets in (table, doubled))
    assert list(merged.key_sets) == list(named.key_sets) == list(table)
    assert np.array_equal(merged.spi_i, named.spi_i)
