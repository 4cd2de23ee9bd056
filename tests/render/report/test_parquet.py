import re
import resource
import subprocess
import sys

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import ikeanalyze
from ikeanalyze.render import Format
from ikeanalyze.render.core.output import OutputError
from ikeanalyze.render.report.formats import FORMATS
from ikeanalyze.render.report.parquet import ParquetWriter, write_parquet
from tests.dataset.made import batch
from tests.paths import CAPTURES
from tests.render.analysis_examples import analysis

CAPTURE = CAPTURES / "eap-md5-radius.pcapng"


def assert_same_values(written, table):
    if "digest" in table.columns:
        written = written.with_columns(pl.col("digest").reinterpret(signed=False))
    assert_frame_equal(written, table, check_dtypes=False, categorical_as_str=True)


def test_all_values_are_written(tmp_path):
    a = analysis()
    directory = tmp_path / "new" / "dataset"
    FORMATS.write(a, Format.PARQUET, str(directory))
    assert sorted(p.name for p in directory.iterdir()) == [
        "captures.parquet",
        "exchanges.parquet",
        "frames.parquet",
        "handshakes.parquet",
        "messages.parquet",
    ]
    for name in ("frames", "messages", "exchanges", "handshakes"):
        back = pl.read_parquet(directory / f"{name}.parquet")
        assert_same_values(back, getattr(a, name))
    (capture,) = pl.read_parquet(directory / "captures.parquet").to_dicts()
    assert capture["capture"] == "lab/testbed.pcapng"
    assert capture["ike_packets"] == a.captures[0].accounting["ike"]
    assert capture["esp_bytes"] == 450


@pytest.mark.parametrize("name", ["handshakes", "exchanges", "messages", "captures"])
def test_report_and_batch_write_the_same_columns(name, tmp_path):
    batch(tmp_path / "dataset", CAPTURE)
    report = ikeanalyze.read(CAPTURE, keys=CAPTURE.with_suffix(".keys.json"))  # as the batch finds it
    FORMATS.write(report, Format.PARQUET, str(tmp_path / "report"))
    (part,) = (tmp_path / "dataset" / name).glob("*.parquet")
    of_dataset, of_report = pl.read_parquet(part), pl.read_parquet(tmp_path / "report" / f"{name}.parquet")
    if name == "captures":  # of a batch alone: state, checksum, labels
        of_dataset = of_dataset.select(of_report.columns)
    assert of_report.schema == of_dataset.schema
    assert_frame_equal(of_report, of_dataset)
    assert pl.concat([of_report, of_dataset]).height == 2 * of_report.height
    key = ["capture"] if name == "captures" else ["capture", name.removesuffix("s")]
    assert of_report.join(of_dataset, on=key).height == of_report.height > 0


def test_frames_join_the_other_tables(tmp_path):
    FORMATS.write(analysis(), Format.PARQUET, str(tmp_path))
    frames, messages, handshakes = (
        pl.read_parquet(tmp_path / f"{name}.parquet") for name in ("frames", "messages", "handshakes")
    )
    of_messages = frames.join(messages, on=["capture", "message", "protocol"])
    assert of_messages.height == frames["message"].count() > 0
    assert frames.join(handshakes, on=["capture", "handshake"]).height == frames["handshake"].count()


def test_again_into_the_same_directory(tmp_path):
    FORMATS.write(analysis(), Format.PARQUET, str(tmp_path))
    FORMATS.write(analysis([1]), Format.PARQUET, str(tmp_path))
    assert pl.read_parquet(tmp_path / "handshakes.parquet").height == 1
    assert len(list(tmp_path.iterdir())) == 5


def test_a_file_in_place_of_the_folder_is_an_error(tmp_path):
    (tmp_path / "x").write_text("precious")
    with pytest.raises(OutputError, match="is a file"):
        FORMATS.write(analysis(), Format.PARQUET, str(tmp_path / "x"))
    assert (tmp_path / "x").read_text() == "precious"


def test_nothing_remains_where_the_disk_has_no_space(tmp_path):
    # as a full disk, for files of more than a kilobyte
    process = subprocess.run(
        [sys.executable, "-m", "ikeanalyze", "report", CAPTURE, "--format", "parquet", "-o", tmp_path / "report"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024)),
        capture_output=True,
        text=True,
    )
    assert process.returncode == 1
    assert re.search(r"report/\w+\.parquet: cannot be written: ", process.stderr.splitlines()[-1])
    assert list((tmp_path / "report").iterdir()) == []


def test_a_table_can_be_written_before_the_rest_is_there(tmp_path):
    a = analysis()
    early = a.frames.with_columns(number=pl.col("number") + 1)
    with ParquetWriter(str(tmp_path)) as writer:
        writer.add("frames", early)
        writer.finish(a)
    back = pl.read_parquet(tmp_path / "frames.parquet")
    assert_same_values(back, early)
    assert len(list(tmp_path.iterdir())) == 5


def test_nothing_appears_when_the_rest_never_comes(tmp_path):
    def interrupted() -> None:
        with ParquetWriter(str(tmp_path)) as writer:
            writer.add("frames", analysis().frames)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_only_the_wanted_tables_are_written(tmp_path):
    a = analysis()
    write_parquet(a, str(tmp_path / "some"), ("handshakes", "frames"))
    write_parquet(a, str(tmp_path / "all"))
    assert sorted(path.name for path in (tmp_path / "some").iterdir()) == ["frames.parquet", "handshakes.parquet"]
    for path in (tmp_path / "some").iterdir():
        assert path.read_bytes() == (tmp_path / "all" / path.name).read_bytes()


def test_tables_of_another_report_do_not_stay_beside_those_of_this_one(tmp_path):
    (tmp_path / "messages.parquet").write_bytes(b"")
    with pytest.raises(OutputError, match=r"has messages\.parquet of another report\. Remove it"):
        write_parquet(analysis(), str(tmp_path), ("handshakes",))
    assert [path.name for path in tmp_path.iterdir()] == ["messages.parquet"]
    write_parquet(analysis(), str(tmp_path))
