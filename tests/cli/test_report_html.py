"""`report --format html` and `--figures`, as a process of its own would do it."""

import gzip
import os

import pytest
import zstandard

from tests.paths import CAPTURES
from tests.render.analysis_examples import CAPTURE, analysis


def test_a_page_is_written(run, tmp_path):
    out = tmp_path / "page.html"
    done = run("report", str(CAPTURES / "pq-mlkem768-psk.pcap"), "--format", "html", "-o", str(out))
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    text = out.read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert "N(INTERMEDIATE_EXCHANGE_SUPPORTED)" in text  # payloads of clear messages are named without keys
    assert "Bytes by payload" not in text  # and nothing is said of bytes that were not read


def test_figures_beside_any_format(run, tmp_path):
    folder = tmp_path / "figures"
    capture = str(CAPTURES / "pq-mlkem768-psk.pcap")
    done = run("report", capture, "--format", "csv", "--figures", str(folder))
    assert done.exit_code == 0
    assert done.stdout == run("report", capture, "--format", "csv").stdout
    assert done.stderr == f"ikeanalyze: {folder}: {len(list(folder.iterdir()))} files\n"
    assert {path.suffix for path in folder.iterdir()} == {".svg", ".pdf", ".png"}


def test_tables_and_figures(run, reader, tmp_path):
    tables, figures = tmp_path / "tables", tmp_path / "figures"
    done = run("report", CAPTURE, "--format", "parquet", "-o", str(tables), "--figures", str(figures), "--quiet")
    assert (done.exit_code, done.stderr) == (0, "")
    assert len(list(tables.iterdir())) == 5
    assert (figures / "setup-parts.svg").exists()


@pytest.mark.parametrize("options", [(), ("--format", "json"), ("--format", "csv")])
def test_other_formats_need_no_names(run, reader, options):
    run("report", CAPTURE, *options)
    assert reader.asked["payloads"] is False


def test_names_are_asked_for_where_that_takes_no_time(run, reader, tmp_path):
    large = tmp_path / "large.pcap"
    with open(large, "wb") as file:
        file.truncate(33 << 20)
    for capture, named in ((CAPTURE, True), (str(large), False)):
        assert run("report", capture, "--format", "html").exit_code == 0
        assert reader.asked["payloads"] is named


def test_of_compressed_captures_what_is_in_them_counts(run, reader, tmp_path):
    """33 MiB of zeros are 33 kB of gzip; two halves are as much as the whole."""
    whole, half = tmp_path / "whole.gz", tmp_path / "half.gz"
    whole.write_bytes(gzip.compress(bytes(33 << 20), 1))
    half.write_bytes(gzip.compress(bytes(17 << 20), 1))
    packed = tmp_path / "whole.zst"
    packed.write_bytes(zstandard.compress(bytes(33 << 20)))
    for captures, named in (([whole], False), ([packed], False), ([half], True), ([half, half], False)):
        assert run("report", *map(str, captures), "--format", "html").exit_code == 0
        assert reader.asked["payloads"] is named


def test_of_a_pipe_nobody_knows_how_much_comes(run, reader, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for capture in (str(pipe), "-"):
        assert run("report", capture, "--format", "html").exit_code == 0
        assert reader.asked["payloads"] is False


def test_where_figures_cannot_be_written(run, reader, tmp_path):
    (tmp_path / "file").write_text("")
    done = run("report", CAPTURE, "--figures", str(tmp_path / "file"))
    assert done.exit_code == 1
    assert done.stdout == ""
    what = "is a file, and this needs a directory. Name another output with --figures"
    assert done.stderr == f"ikeanalyze: {tmp_path / 'file'}: {what}\n"


def test_one_handshake_can_be_selected(run, reader):
    reader.analysis = analysis()
    text = run("report", CAPTURE, "--format", "html", "--handshake", "2").stdout
    assert 'id="handshake-2"' in text
    assert 'id="handshake-1"' not in text
