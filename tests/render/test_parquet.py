import polars as pl
import pytest
from polars.testing import assert_frame_equal

from ikeanalyze.render import Format
from ikeanalyze.render.output import OutputError
from ikeanalyze.render.parquet import Writer
from ikeanalyze.render.report import FORMATS
from tests.render.handmade import analysis


def test_the_tables_as_they_are(tmp_path):
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
        assert_frame_equal(back, getattr(a, name), categorical_as_str=True)
    (capture,) = pl.read_parquet(directory / "captures.parquet").to_dicts()
    assert capture["capture"] == "lab/testbed.pcapng"
    assert capture["ike_packets"] == a.captures[0].accounting["ike"]
    assert capture["esp_bytes"] == 450


def test_again_into_the_same_directory(tmp_path):
    FORMATS.write(analysis(), Format.PARQUET, str(tmp_path))
    FORMATS.write(analysis([1]), Format.PARQUET, str(tmp_path))
    assert pl.read_parquet(tmp_path / "handshakes.parquet").height == 1
    assert len(list(tmp_path.iterdir())) == 5


def test_a_file_is_in_the_way(tmp_path):
    (tmp_path / "x").write_text("precious")
    with pytest.raises(OutputError, match="is a file"):
        FORMATS.write(analysis(), Format.PARQUET, str(tmp_path / "x"))
    assert (tmp_path / "x").read_text() == "precious"


def test_nothing_stays_behind_on_an_error(tmp_path, monkeypatch):
    def fail(self, *args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", fail)
    with pytest.raises(OutputError, match="No space left"):
        FORMATS.write(analysis(), Format.PARQUET, str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_table_can_be_written_before_the_rest_is_there(tmp_path):
    a = analysis()
    early = a.frames.with_columns(number=pl.col("number") + 1)
    with Writer(str(tmp_path)) as writer:
        writer.add("frames", early)
        writer.finish(a)
    back = pl.read_parquet(tmp_path / "frames.parquet")
    assert_frame_equal(back, early, categorical_as_str=True)
    assert len(list(tmp_path.iterdir())) == 5


def test_nothing_appears_when_the_rest_never_comes(tmp_path):
    def interrupted() -> None:
        with Writer(str(tmp_path)) as writer:
            writer.add("frames", analysis().frames)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []
