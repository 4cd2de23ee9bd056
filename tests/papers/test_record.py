"""From recordings of the lab to the tables of a report."""

import json
import shutil

import polars as pl
import pytest

from ikeanalyze.papers import PaperError
from ikeanalyze.papers.claims import KeptTable, Recording, load_claims
from ikeanalyze.papers.record import (
    RecordOptions,
    describe_environment,
    make_case_table,
    run_scenarios,
    select_tables,
    write_data,
)
from ikeanalyze.papers.report import ReportFolder, load_tables
from tests.paths import CAPTURES

BARE = """
title = "Made up"
source = "Nobody: Nothing"
question = "Why?"
answer = "Because."
"""


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """Recordings of the lab in the layout of `paper run`: a folder for each scenario."""
    folder = tmp_path_factory.mktemp("recordings")
    for name in ("psk", "ecdsa"):
        (folder / name).mkdir()
        for path in (CAPTURES / "lab").glob(f"{name}.*"):
            shutil.copy(path, folder / name)
    return folder


def test_tables_are_small_and_have_the_names_of_the_scenarios(recordings, tmp_path):
    folder = ReportFolder(tmp_path)
    folder.data.mkdir()
    (folder.data / "old.parquet").touch()
    folder.claims.write_text(f"""{BARE}
        captures = ["psk/psk.pcapng"]
        [[predictions]]
        id = "satellite"
        experiment = "psk"
        options = "--link geostationary --budget 1000,2000 --runs 10"
    """)
    write_data(folder, recordings, print, load_claims(folder.claims))
    assert (folder.data / "captures" / "psk" / "psk.pcapng").read_bytes() == (
        recordings / "psk/psk.pcapng"
    ).read_bytes()
    tables = load_tables(folder.data)
    assert {"captures", "handshakes", "exchanges", "phases", "certificates"} <= set(tables)
    assert set(tables["captures"]["capture"]) == {"psk/psk.pcapng", "ecdsa/ecdsa.pcapng"}
    for table in tables.values():
        assert set(table["experiment"]) <= {"psk", "ecdsa"}
    # two round trips of 600 ms
    assert tables["predictions"].select("within_1000_ms", "within_2000_ms").rows() == [(0, 1)]
    assert tables["cases"].columns[:3] == ["experiment", "capture", "scenario"]
    assert "replaces" not in tables["handshakes"].columns
    for name in tables.keys() - {"cases"}:  # the table `cases` keeps its columns without values
        assert all(column.null_count() < len(column) for column in tables[name]), name
    # lists became tables: the phases of a handshake add up to its bytes
    handshakes, key = tables["handshakes"], ["capture", "handshake"]
    phases = tables["phases"].group_by(key).agg(pl.col("bytes").sum())
    both = handshakes.join(phases, on=key)
    assert len(both) == len(handshakes)
    assert both.select((pl.col("initiator_bytes") + pl.col("responder_bytes") == pl.col("bytes")).all()).item()
    assert json.loads(folder.environment.read_text())["experiments"].keys() == {"psk", "ecdsa"}


def test_claims_select_the_tables_columns_and_experiments_that_are_kept():
    table = pl.DataFrame({"experiment": ["psk", "rsa"], "a": [1, 2]})
    tables = {"handshakes": table, "exchanges": table}
    assert select_tables(tables, {}) == tables
    kept = select_tables(tables, {"handshakes": KeptTable(without=("psk",))})
    assert {name: each.rows() for name, each in kept.items()} == {"handshakes": [("rsa", 2)]}
    # a column without any value is not in the tables
    kept = select_tables(tables, {"handshakes": KeptTable(columns=("a", "empty"))})
    assert {name: each.columns for name, each in kept.items()} == {"handshakes": ["a"]}
    with pytest.raises(PaperError, match="there is no table phases; there are: handshakes, exchanges"):
        select_tables(tables, {"phases": KeptTable()})


def test_the_environment_counts_what_manifests_list(recordings):
    manifests = [json.loads(path.read_text()) for path in recordings.glob("*/*.manifest.json")]
    described = describe_environment(recordings)
    counts = described["experiments"].values()
    assert sum(each["handshakes"] for each in counts) == sum(len(manifest["handshakes"]) for manifest in manifests)
    assert described["machine"]["initiator"] == sorted({manifest["machine"]["initiator"] for manifest in manifests})


def test_the_memory_of_an_ike_sa_is_that_of_the_manifest(tmp_path):
    (tmp_path / "memory").mkdir()
    manifest = {
        "schema": "ikeanalyze.lab/1",
        "name": "memory",
        "files": {"capture": "memory.pcapng"},
        "bytes_per_ike_sa": {"initiator": 5000.5, "responder": None},
    }
    (tmp_path / "memory" / "memory.manifest.json").write_text(json.dumps(manifest))
    (row,) = make_case_table(tmp_path).rows(named=True)
    assert row == {
        "experiment": "memory",
        "capture": "memory/memory.pcapng",
        "scenario": "memory",
        "initiator_bytes_per_ike_sa": 5000.5,
        "responder_bytes_per_ike_sa": None,
        "aaa_bytes_per_ike_sa": None,
    }


def test_a_folder_without_captures_is_an_error(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(PaperError, match="no capture to read"):
        write_data(ReportFolder(tmp_path), tmp_path / "empty", print)
    assert not (tmp_path / "environment.json").exists()


@pytest.mark.parametrize(("folder", "number"), [("004-satellite", "004"), ("pq-cost", "pq-cost")])
def test_a_report_without_a_number_is_named_by_its_folder(tmp_path, folder, number):
    assert ReportFolder(tmp_path / folder).number == number


def test_the_way_to_record_a_scenario_that_does_not_exist_is_an_error(tmp_path):
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "psk.toml").write_text("iterations = 1\n")
    with pytest.raises(PaperError, match="recording: there is no scenario pks; there are: psk"):
        run_scenarios(ReportFolder(tmp_path), tmp_path, {"pks": Recording(jobs=2)}, RecordOptions(), print)


def test_with_other_values_the_copy_of_a_capture_that_was_not_recorded_is_removed(recordings, tmp_path):
    folder = ReportFolder(tmp_path)
    copies = folder.data / "captures"
    (copies / "rsa").mkdir(parents=True)
    (copies / "rsa" / "rsa.pcapng").write_text("recorded earlier with the values of the scenarios")
    folder.claims.write_text(f'{BARE}\ncaptures = ["psk/psk.pcapng", "rsa/rsa.pcapng"]\n')
    write_data(folder, recordings, print, load_claims(folder.claims), values=["responder.stack=libreswan"])
    assert [path.name for path in copies.rglob("*.pcapng")] == ["psk.pcapng"]
