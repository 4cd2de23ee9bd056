"""Formats that a command cannot write, and `--figures` without a directory."""

import gzip
import json
import os
import re
from importlib import import_module

import pytest
from jsonschema import Draft202012Validator

from ikeanalyze.render.report.document import iterate_handshake_json
from ikeanalyze.render.schemas import COMMANDS as SCHEMAS
from ikeanalyze.render.schemas import read_schema
from tests.render.analysis_examples import CAPTURE, analysis


@pytest.mark.parametrize("directory", ["", "-"])
@pytest.mark.parametrize("command", [("report", CAPTURE), ("compare", "dataset", "--by", "capture")], ids=" ".join)
def test_figures_need_a_directory(run, reader, tmp_path, monkeypatch, command, directory):
    monkeypatch.chdir(tmp_path)
    done = run(*command, "--figures", directory)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{directory!r} is not a directory" in done.stderr
    assert os.listdir(tmp_path) == []
    assert reader.asked == {}  # nobody waited for it


#: The package in `render` for the result of each command that has an option --format.
FORMATS = {
    "report": "report.formats",
    "keys": "keys.formats",
    "verify": "verification.formats",
    "compare": "comparison.formats",
    "replay": "replay.formats",
    "predict": "prediction.formats",
    "rank": "ranking.formats",
    "overhead compute": "overhead.formats",
    "overhead measure": "overhead.formats",
    "overhead paper": "overhead.formats",
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_command_takes_the_formats_that_its_result_has(run, name):
    formats = [str(form) for form in import_module(f"ikeanalyze.render.{FORMATS[name]}").FORMATS]
    done = run(*name.split(), "x", "--format", "pdf")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "Invalid value for '--format': 'pdf' is not one of" in done.stderr
    assert re.findall(r"'(\w+)'", done.stderr.partition("is not one of ")[2]) == formats
    usage = run(*name.split(), "--help").stdout.replace("\n", " ")
    assert re.findall(r"\w+", re.search(r"--format [<[](.*?)[]>]", usage)[1]) == formats


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        ("x.json", '{\n  "schema": "ikeanalyze.report/1"'),
        ("x.JSONL", '{"id":1,'),
        ("x.csv", "capture,handshake,"),
        ("x.md", f"# {CAPTURE}\n"),
        ("x.html", "<!DOCTYPE html>"),
        ("x.xml", "<?xml "),
        ("x.txt", f"{CAPTURE}\n"),
        ("x", f"{CAPTURE}\n"),
    ],
)
def test_the_suffix_of_the_output_chooses_the_format(run, reader, tmp_path, name, begin):
    done = run("report", CAPTURE, "-o", str(tmp_path / name))
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / name).read_text().startswith(begin)


def test_a_directory_of_parquet_files_is_chosen_by_its_suffix(run, reader, tmp_path):
    assert run("report", CAPTURE, "-o", str(tmp_path / "x.parquet")).exit_code == 0
    assert (tmp_path / "x.parquet" / "handshakes.parquet").exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--format", "json", "-o", "x.html"), "x.html has the name of a file in the format html, not json."),
        (("--format", "terminal", "-o", "x.md"), "x.md has the name of a file in the format markdown, not terminal."),
        (("--format", "parquet", "-o", "x.json"), "x.json has the name of a file in the format json, not parquet."),
    ],
    ids=" ".join,
)
def test_a_suffix_that_contradicts_the_format_is_refused(run, reader, tmp_path, monkeypatch, arguments, problem):
    monkeypatch.chdir(tmp_path)
    done = run("report", CAPTURE, *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"ikeanalyze: Invalid value for -o: {problem} See 'ikeanalyze report --help'\n"
    assert os.listdir(tmp_path) == []
    assert reader.asked == {}


@pytest.mark.parametrize("name", ["x.pdf", "x.PNG", "x.xlsx", "x.pcap", "x.pcapng", "x.cap", "x.tsv", "x.yaml"])
def test_a_text_is_not_written_to_a_document_picture_or_capture(run, reader, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    done = run("report", CAPTURE, "-o", name)
    assert done.exit_code == 2
    suffix = os.path.splitext(name)[1].lower()
    assert f"{name}: no format is written to {suffix} files; the formats are terminal, json, " in done.stderr
    assert (os.listdir(tmp_path), reader.asked) == ([], {})
    # who names the format has it
    assert run("report", CAPTURE, "--format", "json", "-o", name).exit_code == 0


@pytest.mark.parametrize(
    ("name", "begin"),
    [("x.json.gz", '{\n  "schema": "ikeanalyze.report/1"'), ("x.CSV.GZ", "capture,"), ("x.gz", CAPTURE)],
)
def test_a_compressed_output_has_the_format_of_the_suffix_before(run, reader, tmp_path, name, begin):
    done = run("report", CAPTURE, "-o", str(tmp_path / name))
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    assert gzip.decompress((tmp_path / name).read_bytes()).decode().startswith(begin)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ("-o", "x.json.xz"),
            "x.json.xz: no .xz file is written; outputs are compressed if their names end with .gz or .zst.",
        ),
        (("--format", "json", "-o", "x.zip"), "x.zip: no .zip file is written; outputs are compressed if "),
        (("-o", "x.pdf.gz"), "x.pdf.gz: no format is written to .pdf files; the formats are terminal, json, "),
        (("--format", "csv", "-o", "x.json.gz"), "x.json.gz has the name of a file in the format json, not csv."),
        (("-o", "x.parquet.gz"), "x.parquet.gz: parquet is a directory of compressed files; name it x.parquet."),
        (("--format", "parquet", "-o", "x.zst"), "x.zst: parquet is a directory of compressed files; name it x."),
    ],
    ids=" ".join,
)
def test_a_name_that_cannot_be_compressed_is_refused(run, reader, tmp_path, monkeypatch, arguments, problem):
    monkeypatch.chdir(tmp_path)
    done = run("report", CAPTURE, *arguments)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"Invalid value for -o: {problem}" in done.stderr
    assert (os.listdir(tmp_path), reader.asked) == ([], {})


@pytest.mark.parametrize(
    "command",
    [
        ("extract", "a.pcap"),
        ("decrypt", "a.pcap", "--keys", "a.log"),
        ("anonymize", "a.pcap"),
        ("keys", "a.log", "--embed", "a.pcap"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("name", ["x.json", "x.txt.gz", "x.pdf", "x.pcap.zip"])
def test_a_capture_is_not_written_to_another_kind_of_file(run, tmp_path, monkeypatch, command, name):
    monkeypatch.chdir(tmp_path)
    done = run(*command, "-o", name)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"Invalid value for -o: {name}: " in done.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["x.html", "x.json", "x.md.gz", "x.svg", "x.pcap"])
def test_a_ladder_is_not_written_to_another_kind_of_file(run, reader, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    done = run("ladder", CAPTURE, "-o", name)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "; the only format is terminal." in done.stderr
    assert (os.listdir(tmp_path), reader.asked) == ([], {})


def test_json_lines_may_be_named_json(run, reader, tmp_path):
    assert run("report", CAPTURE, "--format", "jsonl", "-o", str(tmp_path / "x.json")).exit_code == 0
    assert (tmp_path / "x.json").read_text().startswith('{"id":1,')


@pytest.mark.parametrize(
    "command", [("compare", "dataset", "--by", "capture"), ("verify", "x", "--keys", "y"), ("keys", "x")], ids=" ".join
)
def test_a_format_that_the_command_cannot_write_is_refused(run, command):
    done = run(*command, "-o", "x.xml")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    problem = "x.xml has the name of a file in the format junit; the formats are terminal, json"
    assert f"Invalid value for -o: {problem}" in done.stderr


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_schema_is_printed_without_any_input(run, name):
    done = run(*name.split(), "--schema")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == read_schema(SCHEMAS[name])
    assert json.loads(done.stdout)["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_a_line_of_live_has_its_own_schema(run):
    schema = json.loads(run("live", "--schema").stdout)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    example = json.loads(next(iterate_handshake_json(analysis([1]))))
    assert list(Draft202012Validator(schema).iter_errors(example)) == []
    del example["spi_i"]
    assert len(list(Draft202012Validator(schema).iter_errors(example))) == 1
    assert "of a line of the format jsonl" in " ".join(run("live", "--help").stdout.split())


def test_every_command_with_json_has_a_schema():
    assert set(FORMATS) <= set(SCHEMAS)


@pytest.mark.parametrize(
    ("command", "option"), [("keys", "--output"), ("lab run", "--jobs"), ("report", "--keys")], ids=" ".join
)
def test_an_option_without_its_value_names_the_command(run, command, option):
    done = run(*command.split(), option)
    assert (done.exit_code, done.stdout) == (2, "")
    said = f"ikeanalyze: Option '{option}' requires an argument. See 'ikeanalyze {command} --help'\n"
    assert done.stderr == said
