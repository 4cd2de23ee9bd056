import os
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

import ikeanalyze
from ikeanalyze.dataset.compare import CompareError
from ikeanalyze.dataset.compare.compare import ComparisonRequest, compare_groups
from ikeanalyze.dataset.compare.source import open_tables
from ikeanalyze.render.report import parquet
from tests.dataset.grouped import LAB
from tests.dataset.made import batch, capture


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    directory = tmp_path_factory.mktemp("report")
    captures = [LAB / "psk.pcapng", LAB / "rsa-chain3.pcapng"]
    parquet.write_parquet(ikeanalyze.read([str(item) for item in captures]), str(directory))
    return directory


def copied(report, tmp_path):
    for file in report.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def test_a_directory_of_report(report):
    tables = open_tables(str(report))
    assert (tables.path, tables.labels, tables.unread, tables.complete) == (str(report), (), 0, True)
    # joins handshakes and exchanges, and groups by what is a category there
    groups = compare_groups(tables, ComparisonRequest(["capture"], metrics=["round_trips"])).metrics[0].groups
    assert [one.mean.value for one in groups] == [2, 2]


def test_a_capture_is_no_dataset():
    with pytest.raises(CompareError, match=r"psk\.pcapng: is a file, not a dataset; `ikeanalyze batch` makes one$"):
        open_tables(str(LAB / "psk.pcapng"))


@contextmanager
def as_ordinary_user():
    """Root may read everything, so root becomes somebody else for a moment."""
    root = os.geteuid() == 0
    if root:
        os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        if root:
            os.setresuid(0, 0, 0)


@pytest.mark.parametrize("forbidden", ["handshakes", "exchanges", "captures", "handshakes/*.parquet"])
def test_a_missing_permission_is_no_reason_to_make_the_dataset_again(forbidden):
    with tempfile.TemporaryDirectory() as folder:  # one that others may enter, unlike tmp_path
        Path(folder).chmod(0o755)
        (Path(folder) / "0.pcap").write_bytes(capture(0))
        batch(out := Path(folder) / "out", folder)
        request = ComparisonRequest(["capture"], metrics=["round_trips"])
        compare_groups(open_tables(str(out)), request)  # loads the modules that another user may not read
        (place,) = out.glob(forbidden)
        place.chmod(0)
        try:
            with as_ordinary_user(), pytest.raises(CompareError) as error:
                compare_groups(open_tables(str(out)), request)
        finally:
            place.chmod(0o755)
    assert str(error.value) == f"{place}: no permission to read it"


def test_a_damaged_file_is_an_error(report, tmp_path):
    path = copied(report, tmp_path) / "handshakes.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CompareError, match=r"handshakes\.parquet: cannot be read") as error:
        open_tables(str(tmp_path))
    assert "\n" not in str(error.value)


def test_damage_that_shows_late(report, tmp_path):
    path = copied(report, tmp_path) / "handshakes.parquet"
    content = bytearray(path.read_bytes())
    content[4:2000] = bytes(1996)
    path.write_bytes(content)
    with pytest.raises(CompareError, match="cannot be read"):
        compare_groups(open_tables(str(tmp_path)), ComparisonRequest(["capture"]))


def test_a_dataset_of_which_a_file_is_damaged(tmp_path):
    """It is named, whether that shows by its size or when it is read."""
    out = tmp_path / "out"
    for number in range(2):
        (tmp_path / f"{number}.pcap").write_bytes(capture(number))
        batch(out, tmp_path / f"{number}.pcap")
    file = sorted((out / "handshakes").iterdir())[1]
    file.write_bytes(b"PAR1" + bytes(file.stat().st_size - 4))
    with pytest.raises(CompareError, match=f"{file}: cannot be read .*Remove it, and run the batch again"):
        compare_groups(open_tables(str(out)), ComparisonRequest(["capture"]))
    file.write_bytes(b"PAR1")
    with pytest.raises(CompareError, match=f"{file}: is damaged: it has 4 bytes.*Run the batch again"):
        open_tables(str(out))


def test_a_table_of_something_else(report, tmp_path):
    copied(report, tmp_path)
    (tmp_path / "handshakes.parquet").write_bytes((tmp_path / "captures.parquet").read_bytes())
    with pytest.raises(CompareError, match=r"not a table of handshakes .column aaa_address is missing"):
        open_tables(str(tmp_path))


def test_a_missing_file_is_an_error(report, tmp_path):
    (copied(report, tmp_path) / "exchanges.parquet").unlink()
    with pytest.raises(CompareError, match=r"exchanges\.parquet: cannot be read"):
        open_tables(str(tmp_path))


@pytest.mark.parametrize("name", ["", "none"])
def test_another_folder_is_not_a_dataset(tmp_path, name):
    with pytest.raises(CompareError, match=r"`ikeanalyze batch PATH\.\.\. -o DATASET` makes one"):
        open_tables(str(tmp_path / name))


def test_a_folder_that_nobody_may_look_into(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "a" * 300  # which no file system has, so that root cannot look into it either
    with pytest.raises(CompareError, match="cannot be read"):
        open_tables(name)
