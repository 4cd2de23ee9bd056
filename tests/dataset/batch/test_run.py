import os
import shutil
from pathlib import Path

import polars as pl
import pytest

import ikeanalyze
from ikeanalyze.dataset.batch import task
from ikeanalyze.dataset.batch.task import BatchReadOptions
from ikeanalyze.dataset.labels import LabelError
from ikeanalyze.dataset.manifest import DatasetError
from tests.dataset.made import (
    MESSAGES,
    TABLES,
    Here,
    Told,
    batch,
    capture,
    entries,
    files,
    manifest,
    runs,
    small_groups,
    tables,
)
from tests.paths import CAPTURES

PATTERN = "{config}/loss{loss:float}/{run:int}.pcap"


@pytest.fixture(autouse=True)
def _small(monkeypatch, tmp_path):
    small_groups(monkeypatch)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def frame(out, table):
    return pl.read_parquet(out / table).sort("capture", maintain_order=True)


def column(out, table, name):
    return frame(out, table)[name].to_list()


def again(out, *paths, **options):
    """A second batch: the names of the captures that it read."""
    here = Here()
    batch(out, *paths, workers=here, **options)
    return sorted(Path(one.path).name for task in here.tasks for one in task.captures)


def test_counts_by_hand(out):
    runs(Path("runs"), 8)
    summary = batch(out, "runs")
    assert (summary.read, summary.unchanged, summary.captures, summary.handshakes) == (8, 0, 8, 8)
    assert {table: frame(out, table).height for table in TABLES} == {
        "captures": 8,
        "handshakes": 8,
        "exchanges": 8 * MESSAGES // 2,
        "messages": 8 * MESSAGES,
    }
    assert manifest(out)["state"] == "complete"
    assert sum(shard["rows"]["messages"] for shard in manifest(out)["shards"]) == 8 * MESSAGES
    # a shard of 3, another, one of 2; four files each, the manifest, and nothing else
    assert len(files(out)) == 3 * 4 + 1


def test_the_tables_are_those_of_reading_each_alone(out):
    names = [path for path in sorted(map(str, CAPTURES.rglob("*.pcap*"))) if "keys" not in path][:12]
    batch(out, *names)
    for table in TABLES[1:]:
        mine = frame(out, table).with_row_index().sort("capture", "index", maintain_order=True).drop("index")
        for name in names:
            alone = getattr(ikeanalyze.read(name, keys=keys_of(name)), table)
            found = mine.filter(pl.col("capture") == name)
            assert found.height == alone.height
            for one in set(alone.columns) - {"digest", "capture"}:
                assert found[one].to_list() == alone[one].to_list(), (name, table, one)


def keys_of(name):
    stem = name.rpartition(".")[0]
    found = sorted(str(path) for path in Path(name).parent.glob(f"{Path(stem).name}.*"))
    keys = [path for path in found if ".keys" in path]
    logs = [path for path in found if ".charon.log" in path]
    return keys + logs or [path for path in found if ".initiator.log" in path]


def test_a_capture_is_known_by_its_path(out):
    Path("a").mkdir()
    Path("b").mkdir()
    same = capture(1, handshakes=3)
    Path("a/x.pcap").write_bytes(same)
    Path("b/x.pcap").write_bytes(same)
    batch(out, "a", "b")
    assert frame(out, "handshakes").select("capture", "handshake").rows() == [
        (f"{folder}/x.pcap", number) for folder in "ab" for number in (1, 2, 3)
    ]
    assert len(set(column(out, "captures", "sha256"))) == 1


def test_two_captures_of_one_name(out, monkeypatch):
    runs(Path("x/runs"), 2)
    runs(Path("y/runs"), 2)
    monkeypatch.chdir("x")
    batch(out, "runs")
    monkeypatch.chdir("../y")
    batch(out, "runs")
    names = column(out, "captures", "capture")
    assert sorted(names)[:2] == [
        f"{Path.cwd()}/runs/eap/loss5/0001.pcap",
        f"{Path.cwd()}/runs/psk/loss0/0000.pcap",
    ]
    assert len(set(names)) == 4
    # known again wherever one stands
    monkeypatch.chdir("..")
    assert again(out, "x", "y") == []
    assert column(out, "captures", "capture") == names


def test_the_second_time_nothing_is_read(out):
    runs(Path("runs"), 5)
    batch(out, "runs")
    before = files(out)
    assert again(out, "runs") == []
    assert files(out) == before


def test_more_captures_are_added(out):
    runs(Path("runs"), 4)
    batch(out, "runs")
    kept = tables(out)
    runs(Path("runs"), 6)
    assert again(out, "runs") == ["0004.pcap", "0005.pcap"]
    assert kept.items() <= tables(out).items()
    assert len(column(out, "captures", "capture")) == 6
    # others, alone: what is there stays
    Path("z.pcap").write_bytes(capture(99))
    assert again(out, "z.pcap") == ["z.pcap"]
    assert len(column(out, "handshakes", "capture")) == 7


def test_a_changed_capture_is_read_again(out):
    runs(Path("runs"), 5)
    batch(out, "runs")
    changed = Path("runs/psk/loss0/0000.pcap")
    changed.write_bytes(capture(50, handshakes=2))
    assert again(out, "runs") == ["0000.pcap"]
    rows = frame(out, "handshakes")
    assert rows.filter(pl.col("capture") == str(changed))["handshake"].to_list() == [1, 2]
    assert rows.height == 6
    assert frame(out, "captures").height == 5


def test_of_the_same_size_the_time_tells_and_the_digest_decides(out):
    runs(Path("runs"), 4)
    batch(out, "runs")
    path = Path("runs/psk/loss0/0000.pcap")
    before = tables(out)
    os.utime(path, ns=(1, 1))
    assert again(out, "runs") == []
    assert tables(out) == before
    assert entries(out)[str(path)]["mtime_ns"] == 1
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert again(out, "runs") == ["0000.pcap"]


def test_keys_beside_a_capture(out):
    for name in ("psk-classic.pcap", "pq-loss15.pcap"):
        shutil.copy(CAPTURES / name, name)
    batch(out, ".")
    assert column(out, "captures", "keys") == [[], []]
    guessed = dict(frame(out, "handshakes").select("capture", "outcome").iter_rows())
    assert guessed["psk-classic.pcap"] == "completed"
    shutil.copy(CAPTURES / "psk-classic.keys.json", ".")
    assert again(out, ".") == ["psk-classic.pcap"]
    found = dict(frame(out, "handshakes").select("capture", "outcome").iter_rows())
    assert found == {**guessed, "psk-classic.pcap": "established"}
    assert column(out, "captures", "keys") == [[], ["psk-classic.keys.json"]]
    os.utime("psk-classic.keys.json", ns=(1, 1))  # as it was
    assert again(out, ".") == []
    Path("keys").mkdir()
    shutil.move("psk-classic.keys.json", "keys")
    assert again(out, ".", keys=["keys"]) == ["psk-classic.pcap"]
    assert column(out, "captures", "keys") == [[], ["keys/psk-classic.keys.json"]]
    assert again(out, ".", keys=["keys"]) == []
    Path("keys/psk-classic.keys.json").unlink()
    assert again(out, ".", keys=["keys"]) == ["psk-classic.pcap"]


def test_keys_for_all(out):
    shutil.copy(CAPTURES / "psk-classic.pcap", ".")
    summary = batch(out, ".", keys=[str(CAPTURES / "psk-classic.keys.json")])
    assert summary.problems == 0
    assert column(out, "handshakes", "outcome") == ["established"]
    assert column(out, "captures", "keys") == [[]]


def test_keys_that_cannot_be_read(out):
    shutil.copy(CAPTURES / "psk-classic.pcap", ".")
    Path("psk-classic.keys.json").write_text("no keys")
    Path("bad").write_text("no keys either")
    said = Told()
    summary = batch(out, ".", keys=["bad", "none"], say=said)
    assert summary.problems == 2
    assert said[0].startswith("bad: contains no key")
    assert said[1] == "none: no such file"
    assert (summary.read, summary.failed, summary.warned) == (1, [], 1)
    ((warning,),) = column(out, "captures", "warnings")
    assert warning.startswith("psk-classic.keys.json: not used: contains no key")


def test_what_cannot_be_read_has_its_reason(out):
    runs(Path("runs"), 3)
    Path("runs/empty.pcap").touch()
    Path("runs/text.pcap").write_text("this is no capture")
    summary = batch(out, "runs")
    assert [entry.capture for entry in summary.failed] == ["runs/empty.pcap", "runs/text.pcap"]
    rows = {row["capture"]: row for row in frame(out, "captures").iter_rows(named=True)}
    assert len(rows) == 5
    assert rows["runs/empty.pcap"]["state"] == "failed"
    assert rows["runs/empty.pcap"]["reason"] == "the file is empty"
    assert rows["runs/empty.pcap"]["packets"] is None
    assert rows["runs/text.pcap"]["reason"] == "not a pcap or pcapng file; it looks like text"
    assert [row["state"] for row in rows.values()].count("read") == 3
    # what is wrong with it is wrong with it, until it changes
    assert again(out, "runs") == []
    assert len(batch(out, "runs").failed) == 2
    Path("runs/empty.pcap").write_bytes(capture(9))
    assert again(out, "runs") == ["empty.pcap"]
    assert frame(out, "handshakes").height == 4


def test_what_could_not_be_opened_is_tried_again(out, monkeypatch):
    runs(Path("runs"), 2)
    os.chmod("runs/psk/loss0/0000.pcap", 0)
    digest = ikeanalyze.dataset.batch.task.hash_file

    def refused(path):
        if not os.stat(path).st_mode & 0o400:
            raise PermissionError(13, "Permission denied")  # what others than root get
        return digest(path)

    monkeypatch.setattr(ikeanalyze.dataset.batch.task, "hash_file", refused)
    batch(out, "runs")
    assert column(out, "captures", "reason") == [None, "cannot be read (Permission denied)"]
    os.chmod("runs/psk/loss0/0000.pcap", 0o600)
    assert again(out, "runs") == ["0000.pcap"]
    assert column(out, "captures", "state") == ["read", "read"]


def test_another_way_of_reading(out):
    runs(Path("runs"), 2)
    batch(out, "runs")
    assert len(again(out, "runs", reading=BatchReadOptions(ports=(4711,)))) == 2
    assert again(out, "runs", reading=BatchReadOptions(ports=(4711,))) == []


def test_another_version_tries_failures_again(out, monkeypatch):
    runs(Path("runs"), 2)
    Path("runs/empty.pcap").touch()
    batch(out, "runs")
    for module in ("run", "task"):
        monkeypatch.setattr(f"ikeanalyze.dataset.batch.{module}.installed_version", lambda: "99")
    assert again(out, "runs") == ["empty.pcap"]


def test_labels_of_paths_become_columns(out):
    runs(Path("runs"), 6)
    said = Told()
    batch(out, "runs", label=[PATTERN], say=said)
    assert said == []
    rows = frame(out, "handshakes").select("config", "loss", "run").rows()
    assert sorted(rows, key=lambda row: row[2]) == [
        ("psk", 0.0, 0),
        ("eap", 5.0, 1),
        ("psk", 20.0, 2),
        ("eap", 0.0, 3),
        ("psk", 5.0, 4),
        ("eap", 20.0, 5),
    ]
    assert sorted(rows) == sorted(frame(out, "captures").select("config", "loss", "run").rows())
    assert manifest(out)["labels"] == {"config": "str", "loss": "float", "run": "int"}
    assert entries(out)["runs/eap/loss5/0001.pcap"]["labels"] == {"config": "eap", "loss": 5.0, "run": 1}


def test_other_labels_need_no_reading(out, tmp_path):
    runs(Path("runs"), 6)
    batch(out, "runs")
    assert again(out, "runs", label=[PATTERN]) == []
    batch(tmp_path / "fresh", "runs", label=[PATTERN])
    assert files(out) == files(tmp_path / "fresh")
    # kept without being said again
    runs(Path("runs"), 7)
    assert again(out, "runs") == ["0006.pcap"]
    assert frame(out, "handshakes").filter(pl.col("run") == 6)["config"].to_list() == ["psk"]
    # another name: the old one goes
    assert again(out, "runs", label=["{kind}/{}/{run:int}.pcap"]) == []
    assert manifest(out)["labels"] == {"kind": "str", "run": "int"}
    assert not {"config", "loss"} & set(frame(out, "handshakes").columns)


def test_labels_of_captures_that_are_not_asked_for_stay(out):
    runs(Path("runs"), 4)
    batch(out, "runs/psk", label=["{config}/{}/{run:int}.pcap"])
    batch(out, "runs/eap", label=["{}/loss{loss:int}/{run:int}.pcap"])
    rows = frame(out, "captures").select("config", "loss", "run").rows()
    assert rows == [(None, 0, 3), (None, 5, 1), ("psk", None, 0), ("psk", None, 2)]
    assert again(out, "runs") == []  # nothing is said of labels
    assert frame(out, "captures").select("config", "loss", "run").rows() == rows
    with pytest.raises(LabelError, match="the label run is str in this batch, but int elsewhere"):
        batch(out, "runs/eap", label=["{run}.pcap"])
    assert frame(out, "captures").select("config", "loss", "run").rows() == rows


def test_labels_in_another_order(out, tmp_path):
    runs(Path("runs"), 4)
    batch(out, "runs", label=["{config}/loss{loss:float}/{}.pcap"])
    order = ["{config}/loss{loss:float}/{}.pcaps", "{config}/loss{loss:float}/{}.pcap"]
    other = ["{loss:float}/{config}.none", "{config}/loss{loss:float}/{}.pcap"]
    assert again(out, "runs", label=other) == []
    batch(tmp_path / "fresh", "runs", label=other)
    assert frame(out, "handshakes").columns[-2:] == ["loss", "config"]
    assert files(out) == files(tmp_path / "fresh")
    assert again(out, "runs", label=order) == []
    assert frame(out, "handshakes").columns[-2:] == ["config", "loss"]


def test_captures_that_no_label_fits(out):
    runs(Path("runs"), 2)
    Path("runs/other.pcap").write_bytes(capture(8))
    said = Told()
    batch(out, "runs", label=[PATTERN], say=said)
    assert said == ["1 capture matches no --label and has no labels: runs/other.pcap"]
    assert column(out, "captures", "run") == [1, None, 0]


def test_a_label_that_is_a_column(out):
    runs(Path("runs"), 1)
    with pytest.raises(LabelError, match="outcome"):
        batch(out, "runs", label=["{outcome}.pcap"])


def test_nothing_to_read(out):
    with pytest.raises(DatasetError, match="no capture to read"):
        batch(out, "none", say=Told())
    assert not out.exists()


def test_a_folder_that_is_something_else(out):
    runs(Path("runs"), 1)
    out.mkdir()
    (out / "thesis.tex").touch()
    with pytest.raises(DatasetError, match="is neither empty nor a dataset"):
        batch(out, "runs")
    assert os.listdir(out) == ["thesis.tex"]
    with pytest.raises(DatasetError, match="is a file"):
        batch(out / "thesis.tex", "runs")


def test_an_empty_folder_will_do(out):
    runs(Path("runs"), 1)
    out.mkdir()
    assert batch(out, "runs").captures == 1


def test_shards_that_somebody_removed_are_made_again(out):
    runs(Path("runs"), 6)
    batch(out, "runs")
    before = files(out)
    next((out / "messages").glob("*.parquet")).unlink()
    shutil.rmtree(out / "exchanges")
    assert len(again(out, "runs")) == 6
    assert files(out) == before


def test_what_is_not_listed_is_removed(out):
    runs(Path("runs"), 3)
    batch(out, "runs")
    before = files(out)
    (out / "messages" / f"part-{'0' * 24}.parquet").write_bytes(b"half")
    (out / "captures" / ".0123456789abcdef.parquet.tmp").write_bytes(b"half")
    batch(out, "runs")
    assert files(out) == before


def test_a_capture_that_changes_while_it_is_read(out, monkeypatch):
    runs(Path("runs"), 3)
    path = Path("runs/psk/loss0/0000.pcap")
    read = task.read_captures

    def slow(*args, **options):
        with open(path, "ab") as file:
            file.write(b"more")
        return read(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(task, "read_captures", slow)
        summary = batch(out, "runs")
    assert [(one.capture, one.sha256) for one in summary.failed] == [(str(path), None)]
    assert summary.failed[0].reason.startswith("it changed while it was read")
    assert str(path) not in column(out, "handshakes", "capture")
    assert frame(out, "handshakes").height == 2
    assert again(out, "runs") == ["0000.pcap"]


@pytest.mark.parametrize("bug", [ZeroDivisionError, pl.exceptions.PanicException])
def test_a_bug_of_ours_costs_one_capture(out, monkeypatch, bug):
    runs(Path("runs"), 3)
    read = task.read_captures

    def wrong(paths, options):
        if any("0001" in path for path in paths):
            raise bug("what")
        return read(paths, options)

    monkeypatch.setattr(task, "read_captures", wrong)
    summary = batch(out, "runs")
    (one,) = summary.failed
    assert one.capture == "runs/eap/loss5/0001.pcap"
    assert one.reason == f"internal error: {bug.__name__}: what. This is a bug of ikeanalyze"
    assert column(out, "captures", "state") == ["failed", "read", "read"]
    assert frame(out, "handshakes").height == 2
    # it is not the capture's fault: it is tried again as long as that goes wrong
    assert column(out, "captures", "sha256")[0] is None
    assert again(out, "runs") == ["0001.pcap"]
    monkeypatch.setattr(task, "read_captures", read)
    assert again(out, "runs") == ["0001.pcap"]
    assert again(out, "runs") == []
    assert column(out, "captures", "state") == ["read"] * 3


def test_too_little_memory_is_tried_again(out, monkeypatch):
    runs(Path("runs"), 1)

    def none(*args, **options):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(task, "read_captures", none)
        (one,) = batch(out, "runs").failed
    assert (one.reason, one.sha256) == ("not enough memory. Split it (editcap -c)", None)
    assert again(out, "runs") == ["0000.pcap"]


@pytest.mark.parametrize("name", [*TABLES, "manifest.json", ".manifest.json.tmp", "journal.jsonl", "lock"])
def test_links_of_a_strangers_dataset_are_not_followed(out, tmp_path, name):
    runs(Path("runs"), 1)
    batch(out, "runs")
    own = tmp_path / "own"
    own.mkdir()
    contents = {"thesis.parquet": b"mine", "part-0123456789abcdef01234567.parquet": b"also mine", "text": b"a text"}
    for file, content in contents.items():
        (own / file).write_bytes(content)
    if name in TABLES:
        shutil.rmtree(out / name)
    else:
        (out / name).unlink(missing_ok=True)
    (out / name).symlink_to(own if name in TABLES else own / "text")
    with pytest.raises(DatasetError, match=f"{name}: is a symbolic link"):
        batch(out, "runs")
    assert {path.name: path.read_bytes() for path in own.iterdir()} == contents


def test_a_pipe_in_a_strangers_dataset_does_not_stop_a_batch(out):
    runs(Path("runs"), 1)
    batch(out, "runs")
    (out / "lock").unlink()
    os.mkfifo(out / "lock")
    with pytest.raises(DatasetError, match="lock: is not a file"):
        batch(out, "runs")
