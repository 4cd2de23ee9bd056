import json
from pathlib import Path

import pytest

from ikeanalyze.dataset.finding import Listed
from ikeanalyze.dataset.labels import LabelError, label, merged
from ikeanalyze.dataset.patterns import read_pattern

LAB = Path(__file__).parent.parent.parent / "captures" / "lab"


def listed(*paths):
    return [Listed(Path(path).name, str(path), 1, 1) for path in paths]


def labelled(paths, *patterns, reserved=()):
    return label(listed(*paths), [read_pattern(text) for text in patterns], reserved)


def test_by_the_first_pattern_that_fits():
    found = labelled(["/r/psk/3.pcap", "/r/eap.pcap", "/r/x.cap"], "{config}/{run:int}.pcap", "{config}.pcap")
    assert found.kinds == {"config": "str", "run": "int"}
    assert found.values == {"/r/psk/3.pcap": {"config": "psk", "run": 3}, "/r/eap.pcap": {"config": "eap"}}
    assert [one.name for one in found.unlabelled] == ["x.cap"]


def test_no_pattern_no_complaint():
    found = labelled(["/r/x.cap"])
    assert (found.kinds, found.values, found.unlabelled) == ({}, {}, [])


@pytest.mark.parametrize("name", ["outcome", "Outcome"])
def test_the_name_of_a_column(name):
    with pytest.raises(LabelError, match=f"the label {name} would be a column that is there already"):
        labelled(["/r/x.cap"], f"{{{name}}}.cap", reserved=["outcome"])


def test_two_names_that_differ_in_case_alone():
    with pytest.raises(LabelError, match="the labels Run and run differ in upper and lower case alone"):
        labelled(["/r/x/1.cap"], "{run}/{Run}.cap")


def test_two_kinds():
    with pytest.raises(LabelError, match=r"run is str in --label .\{run\}\.cap., and int elsewhere"):
        labelled(["/r/x.cap"], "{run:int}.cap", "{run}.cap")
    with pytest.raises(LabelError, match="the label run is int in this batch, and str elsewhere"):
        merged({"a": "int", "run": "str"}, {"run": "int"})


def test_merged_keeps_the_order():
    assert list(merged({"b": "int", "a": "str"}, {"c": "int", "a": "str"})) == ["b", "a", "c"]


def test_the_manifest_of_the_lab():
    path = LAB / "loss_loss-percent-20.pcapng"
    scenario = json.loads((LAB / "loss_loss-percent-20.manifest.json").read_text())["scenario"]
    found = labelled([path])
    values = found.values[str(path)]
    assert values["scenario"] == "loss_loss-percent-20"
    assert values["link_loss_percent"] == scenario["link.loss_percent"] == 20
    assert values["initiator_auth"] == scenario["initiator.auth"]
    assert values["link_nat"] is False
    assert values["initiator_key_bits"] == 0
    assert "iterations" not in values
    assert {found.kinds[name] for name in ("link_loss_percent", "initiator_key_bits")} == {"float"}
    assert (found.kinds["scenario"], found.kinds["link_nat"]) == ("str", "bool")


def test_a_path_counts_more_than_the_manifest():
    path = LAB / "loss_loss-percent-20.pcapng"
    found = labelled([path], "loss_loss-percent-{link_loss_percent:int}.pcapng")
    assert found.values[str(path)]["link_loss_percent"] == 20
    assert found.kinds["link_loss_percent"] == "int"
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
