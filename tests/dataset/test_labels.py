import json
import re
from pathlib import Path

import pytest

from ikeanalyze.dataset.batch.discovery import CaptureFile
from ikeanalyze.dataset.labels import LabelError, PatternError, label_captures, merge_label_columns, parse_pattern
from ikeanalyze.io.lab_manifest import read_lab_manifest
from tests.paths import LAB_CAPTURES, ROOT

LAB = LAB_CAPTURES


def listed(*paths):
    return [CaptureFile(Path(path).name, str(path), 1, 1) for path in paths]


def labelled(paths, *patterns, reserved=()):
    return label_captures(listed(*paths), [parse_pattern(text) for text in patterns], reserved)


def test_by_the_first_pattern_that_fits():
    found = labelled(["/r/psk/3.pcap", "/r/eap.pcap", "/r/x.cap"], "{config}/{run:int}.pcap", "{config}.pcap")
    assert found.label_types == {"config": "str", "run": "int"}
    assert found.values == {"/r/psk/3.pcap": {"config": "psk", "run": 3}, "/r/eap.pcap": {"config": "eap"}}
    assert [one.name for one in found.unlabelled] == ["x.cap"]


def test_no_pattern_no_complaint():
    found = labelled(["/r/x.cap"])
    assert (found.label_types, found.values, found.unlabelled) == ({}, {}, [])


@pytest.mark.parametrize("name", ["outcome", "Outcome"])
def test_the_name_of_a_column(name):
    with pytest.raises(LabelError, match=f"the label {name} has the name of another column; choose"):
        labelled(["/r/x.cap"], f"{{{name}}}.cap", reserved=["outcome"])


def test_two_names_that_differ_in_case_alone():
    with pytest.raises(LabelError, match="the labels Run and run differ only in upper and lower case"):
        labelled(["/r/x/1.cap"], "{run}/{Run}.cap")


def test_a_label_of_two_types_is_an_error():
    with pytest.raises(LabelError, match=r"run is str in --label .\{run\}\.cap., but int elsewhere"):
        labelled(["/r/x.cap"], "{run:int}.cap", "{run}.cap")
    with pytest.raises(LabelError, match="the label run is int in this batch, but str elsewhere"):
        merge_label_columns({"a": "int", "run": "str"}, {"run": "int"})


def test_merged_keeps_the_order():
    assert list(merge_label_columns({"b": "int", "a": "str"}, {"c": "int", "a": "str"})) == ["b", "a", "c"]


def test_the_manifest_of_the_lab():
    path = LAB / "loss_loss-percent-20.pcapng"
    scenario = json.loads((LAB / "loss_loss-percent-20.manifest.json").read_text())["scenario"]
    result = labelled([path])
    values = result.values[str(path)]
    assert values["scenario"] == "loss_loss-percent-20"
    assert values["link_loss_percent"] == scenario["link.loss_percent"] == 20
    assert values["initiator_auth"] == scenario["initiator.auth"]
    assert values["link_nat"] is False
    assert values["initiator_key_bits"] == 0
    assert "iterations" not in values
    assert {result.label_types[name] for name in ("link_loss_percent", "initiator_key_bits")} == {"float"}
    assert (result.label_types["scenario"], result.label_types["link_nat"]) == ("str", "bool")


def test_the_manifest_that_the_documentation_shows(tmp_path):
    page = (ROOT / "docs" / "dataset.md").read_text()
    (tmp_path / "0017.manifest.json").write_text(re.search("```json\n(.*?)```", page, re.DOTALL)[1])
    path = tmp_path / "0017.pcapng"
    assert labelled([path]).values == {
        str(path): {"scenario": "pq", "link_rtt_ms": 40.0, "link_loss_percent": 5.0, "testbed_gateway": "arm"}
    }
    manifest = read_lab_manifest(str(path))
    assert (manifest.capture_host, manifest.rtt_ns) == ("responder", 40_000_000)


def test_a_path_counts_more_than_the_manifest():
    path = LAB / "loss_loss-percent-20.pcapng"
    found = labelled([path], "loss_loss-percent-{link_loss_percent:int}.pcapng")
    assert found.values[str(path)]["link_loss_percent"] == 20
    assert found.label_types["link_loss_percent"] == "int"
    assert found.values[str(path)]["scenario"] == "loss_loss-percent-20"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"schema": "ikeanalyze.lab/1"}',
        '{"schema": "other", "name": "a", "files": {"capture": "a.pcap"}, "scenario": {"x.y": 1}}',
        '{"schema": "ikeanalyze.lab/1", "name": "a", "files": {"capture": "b.pcap"}, "scenario": {"x.y": 1}}',
        '{"schema": "ikeanalyze.lab/1", "name": "a", "files": {"capture": "a.pcap"}, "scenario": [1]}',
        "[" * 100_000,
        "\0\xff",
    ],
)
def test_what_is_no_manifest_of_the_lab(tmp_path, text):
    (tmp_path / "a.manifest.json").write_text(text, encoding="latin-1")
    assert labelled([tmp_path / "a.pcap"]).values == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x.y", "1" + "0" * 400),
        ("x.y", "1e999"),
        ("x.y", "NaN"),
        ("x.y", '"\\ud800"'),
        ("x.y", "null"),
        ("a name.y", "1"),
        ("1.2", "1"),
    ],
)
def test_what_no_column_can_have_is_no_label(tmp_path, name, value):
    scenario = f'{{"{name}": {value}, "link.nat": true}}'
    text = '{"schema": "ikeanalyze.lab/1", "name": "\\udcff", "files": {"capture": "a.pcap"}, "scenario": %s}'
    text %= scenario
    (tmp_path / "a.manifest.json").write_text(text)
    assert labelled([tmp_path / "a.pcap"]).values == {str(tmp_path / "a.pcap"): {"link_nat": True}}


def labels_of(pattern, path):
    return parse_pattern(pattern).labels(path)


def test_patterns_give_typed_labels():
    result = labels_of("{config}/loss{loss:float}/{run:int}.pcapng", "/srv/runs/psk/loss2.5/0017.pcapng")
    assert result == {"config": "psk", "loss": 2.5, "run": 17}
    assert [type(value) for value in result.values()] == [str, float, int]


@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("{x}.pcap", "/a/b.pcap", {"x": "b"}),
        ("{x}-{run:int}.pcap", "/a/pq-768-12.pcap", {"x": "pq-768", "run": 12}),
        ("{a}-{b}.pcap", "/x-y-z.pcap", {"a": "x", "b": "y-z"}),
        ("{}/{run:int}.pcap", "/eap/4.pcap", {"run": 4}),
        ("{a}/{b}/{c}.pcap", "/r/s/t/u.pcap", {"a": "s", "b": "t", "c": "u"}),
        ("loss{l:float}.pcap", "/loss1e-3.pcap", {"l": 0.001}),
        ("loss{l:float}.pcap", "/loss-.5.pcap", {"l": -0.5}),
        ("{{{x}}}.pcap", "/{y}.pcap", {"x": "y"}),
        # what does not fit
        ("{run:int}.pcap", "/4a.pcap", None),
        ("{run:int}.pcap", "/4.5.pcap", None),
        ("{run:int}.pcap", "/99999999999999999999.pcap", None),
        ("{l:float}.pcap", "/nan.pcap", None),
        ("{l:float}.pcap", "/1e999.pcap", None),
        ("{x}.pcap", "/b.pcapng", None),
        ("{x}/b.pcap", "b.pcap", None),
        ("x{x}.pcap", "/x.pcap", None),
        ("a.c.{x}", "/abc.pcap", None),
    ],
)
def test_patterns_take_labels_from_paths(pattern, path, found):
    assert labels_of(pattern, path) == found


def test_a_field_does_not_reach_over_folders():
    assert labels_of("runs/{x}.pcap", "/runs/a/b.pcap") is None


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("{config", "expected '}' before end of string"),
        ("{run:number}.pcap", "unknown type 'number'; a label is int, float or str"),
        ("{run!r}.pcap", "invalid conversion !r of 'run'; a label is int, float or str"),
        ("{a b}.pcap", "invalid name 'a b'"),
        ("{0}.pcap", "invalid name '0'"),
        ("{größe}.pcap", "invalid name 'größe'"),
        ("{a}/{a}.pcap", "a occurs twice"),
        ("*.pcap", "no label in it"),
        ("{}.pcap", "no label in it"),
    ],
)
def test_invalid_patterns_are_rejected(pattern, why):
    with pytest.raises(PatternError) as raised:
        parse_pattern(pattern)
    assert str(raised.value).startswith(repr(pattern))
    assert why in str(raised.value)
    assert "\n" not in str(raised.value)
