import os
import stat
import subprocess

import pytest
from msgspec import structs

from ikeanalyze.io.atomic_write import write_private
from ikeanalyze.keys.detect import read_keys
from ikeanalyze.keys.export import build_key_json, build_wireshark_tables, write_tables
from ikeanalyze.keys.key_set import EspKey, Origin, Phase1Key
from tests.keys.logs_of import LOGS, lines, read
from tests.paths import CAPTURES

PQ = read_keys(str(CAPTURES / "pq-mlkem768-psk.charon.log.gz")).key_sets
ORIGIN = Origin("x", 7)


def tshark(capture, config, *arguments: str) -> str:
    command = ["tshark", "-r", capture, *arguments]
    environment = {**os.environ, "WIRESHARK_CONFIG_DIR": str(config)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=True)
    assert not [line for line in done.stderr.splitlines() if "Running as user" not in line]
    return done.stdout


@pytest.mark.tshark
@pytest.mark.parametrize(("epoch", "groups", "identities"), [(0, {"20", "36"}, set()), (1, {"20"}, {"ini", "res"})])
def test_wireshark_reads_each_epoch_with_its_table(tmp_path, epoch, groups, identities):
    """ML-KEM-768 is in IKE_INTERMEDIATE, identities are in IKE_AUTH."""
    write_tables(str(tmp_path), build_wireshark_tables(PQ, [], []))
    fields = [("-e", field) for field in ("isakmp.key_exchange.dh_group", "isakmp.id.data.fqdn")]
    good = ("-Y", "isakmp && !_ws.malformed", "-T", "fields")
    rows = tshark(CAPTURES / "pq-mlkem768-psk.pcap", tmp_path / f"epoch-{epoch}", *good, *fields[0], *fields[1])
    cells = [row.split("\t") for row in rows.splitlines()]
    assert {cell[0] for cell in cells} - {""} == groups
    assert {name for cell in cells for name in cell[1].split(",")} - {""} == identities


@pytest.mark.tshark
@pytest.mark.parametrize("name", ["libreswan-4.10-cbc", "libreswan-4.10-sha512"])
def test_wireshark_reads_libreswans_handshakes(tmp_path, name):
    keys = read_keys(str(LOGS / f"{name}.i.log.gz"))
    write_tables(str(tmp_path), build_wireshark_tables(keys.key_sets, [], []))
    identities = tshark(LOGS / f"{name}.pcap", tmp_path, "-T", "fields", "-e", "isakmp.id.data.fqdn")
    assert set(identities.replace(",", "\n").split()) == {"ini", "res"}


@pytest.mark.tshark
def test_wireshark_decrypts_ikev1_with_the_exported_keys(tmp_path):
    from_log = read(lines("charon-5.9.8-ikev1.i"))[0].phase1
    write_tables(
        str(tmp_path),
        build_wireshark_tables([], from_log, [EspKey(ORIGIN, "IPv4", "*", "*", None, "NULL", b"", "NULL", b"")]),
    )
    assert sorted(os.listdir(tmp_path)) == ["esp_sa", "ikev1_decryption_table"]
    tshark(CAPTURES / "psk-classic.pcap", tmp_path, "-c", "1")  # which complains of rows that it does not take


@pytest.mark.parametrize("name", ["pq-mlkem768-psk", "loss20-classic", "psk-classic"])
def test_tables_come_back_as_they_were(tmp_path, name):
    sets = read_keys(str(CAPTURES / f"{name}.charon.log.gz")).key_sets
    write_tables(str(tmp_path), build_wireshark_tables(sets, [], []))
    paths = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    back = [keys for path in paths for keys in read_keys(str(path)).key_sets]
    names = ("spi_i", "spi_r", "encryption", "integrity", "sk_ei", "sk_er", "sk_ai", "sk_ar")
    assert [[getattr(keys, n) for n in names] for keys in back] == [[getattr(keys, n) for n in names] for keys in sets]


def test_one_table_where_one_is_enough():
    assert list(build_wireshark_tables(PQ[:1], [], []).files) == ["ikev2_decryption_table"]
    assert list(build_wireshark_tables([*PQ, *PQ], [], []).files) == [
        f"epoch-{n}/ikev2_decryption_table" for n in (0, 1)
    ]


def test_ike_sas_with_fewer_epochs_are_in_all_tables():
    other = structs.replace(PQ[0], spi_i=bytes(8))
    key = Phase1Key(ORIGIN, bytes(8), b"k")
    files = build_wireshark_tables([PQ[0], other, PQ[1]], [key], []).files
    assert [content.count("\n") for content in files.values()] == [2, 1, 2, 1]
    assert all("0000000000000000," in files[f"epoch-{n}/ikev2_decryption_table"] for n in (0, 1))
    assert files["epoch-1/ikev1_decryption_table"] == "0000000000000000,6b\n"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"spi_i": None}, "SPIs are unknown"),
        ({"encryption": None}, "algorithms are unknown"),
        ({"integrity": None}, "algorithms are unknown"),
        ({"no_salt": True}, "salt"),
        ({"encryption": 28}, "no name for CHACHA20-POLY1305 with a key of 36 bytes"),
        (
            {"encryption": 12, "sk_ei": b"k" * 16, "sk_er": b"k" * 16, "integrity": 5},
            "no name for AES-XCBC-96",
        ),
        ({"sk_er": b""}, "keys of one direction"),
    ],
)
def test_what_wireshark_has_no_room_for(change, why):
    made = build_wireshark_tables([structs.replace(PQ[0], **change), PQ[1]], [], [])
    (left,) = made.unexported
    assert why in left.reason
    assert left.origin is PQ[0].origin
    assert len(made.files) == 1
    assert PQ[0].sk_ei.hex() not in repr(made)


def test_no_keys_give_an_empty_export():
    assert build_wireshark_tables([], [], []).files == {}


def test_esp_keys_are_exported_as_rows(tmp_path):
    esp = [
        EspKey(ORIGIN, "IPv4", "192.0.2.1", "*", 0xD1, "AES-CBC [RFC3602]", b"k" * 16, "NULL", b""),
        EspKey(ORIGIN, "IPv6", "*", "*", None, "NULL", b"", "HMAC-MD5-96 [RFC2403]", b"m" * 16),
    ]
    write_tables(str(tmp_path), build_wireshark_tables([], [], esp))
    back = read_keys(str(tmp_path / "esp_sa")).esp
    assert [structs.replace(key, origin=ORIGIN) for key in back] == esp


def test_the_json_export_has_all_keys(tmp_path):
    path = tmp_path / "keys.json"
    write_private(str(path), build_key_json(PQ, [], []))
    back = read_keys(str(path)).key_sets
    assert [structs.replace(keys, origin=mine.origin) for keys, mine in zip(back, PQ, strict=True)] == PQ


def mode(path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.mark.parametrize("umask", [0, 0o022])
def test_only_their_owner_can_read_tables(tmp_path, umask):
    old = os.umask(umask)
    try:
        write_tables(str(tmp_path / "a" / "b"), build_wireshark_tables(PQ, [], []))
    finally:
        os.umask(old)
    assert mode(tmp_path / "a" / "b" / "epoch-0" / "ikev2_decryption_table") == 0o600
    assert mode(tmp_path / "a" / "b" / "epoch-0") == 0o700
