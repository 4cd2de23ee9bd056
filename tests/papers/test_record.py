"""From recordings of the lab to the tables of a report."""

import json
import shutil

import polars as pl
import pytest

from ikeanalyze.papers import PaperError
from ikeanalyze.papers.record import describe_environment, select_columns, write_data
from ikeanalyze.papers.report import ReportFolder, load_tables
from tests.paths import CAPTURES


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
    write_data(folder, recordings, print)
    tables = load_tables(folder.data)
    assert {"captures", "handshakes", "exchanges", "phases", "certificates"} <= set(tables)
    assert set(tables["captures"]["capture"]) == {"psk/psk.pcapng", "ecdsa/ecdsa.pcapng"}
    for table in tables.values():
        assert set(table["experiment"]) <= {"psk", "ecdsa"}
        assert all(table[name].null_count() < len(table) for name in table.columns)
    # lists became tables: the phases of a handshake add up to its bytes
    handshakes, key = tables["handshakes"], ["capture", "handshake"]
    phases = tables["phases"].group_by(key).agg(pl.col("bytes").sum())
    both = handshakes.join(phases, on=key)
    assert len(both) == len(handshakes)
    assert both.select((pl.col("initiator_bytes") + pl.col("responder_bytes") == pl.col("bytes")).all()).item()
    assert json.loads(folder.environment.read_text())["experiments"].keys() == {"psk", "ecdsa"}


def test_claims_select_the_tables_and_columns_that_are_kept():
    tables = {"handshakes": pl.DataFrame({"a": [1], "b": [2]}), "exchanges": pl.DataFrame({"a": [1]})}
    assert {name: table.columns for name, table in select_columns(tables, {}).items()} == {
        "handshakes": ["a", "b"],
        "exchanges": ["a"],
    }
    # a column without any value is not in the tables
    kept = select_columns(tables, {"handshakes": ["b", "empty"]})
    assert {name: table.columns for name, table in kept.items()} == {"handshakes": ["b"]}
    with pytest.raises(PaperError, match="there is no table phases; there are: handshakes, exchanges"):
        select_columns(tables, {"phases": ["a"]})


def test_the_environment_counts_what_manifests_list(recordings):
    manifests = [json.loads(path.read_text()) for path in recordings.glob("*/*.manifest.json")]
    described = describe_environment(recordings)
    counts = described["experiments"].values()
    assert sum(each["handshakes"] for each in counts) == sum(len(manifest["handshakes"]) for manifest in manifests)
    assert described["machine"]["initiator"] == sorted({manifest["machine"]["initiator"] for manifest in manifests})


def test_a_folder_without_captures_is_an_error(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(PaperError, match="no capture to read"):
        write_data(ReportFolder(tmp_path), tmp_path / "empty", print)
    assert not (tmp_path / "environment.json").exists()
