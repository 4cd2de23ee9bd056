"""The figures of the lab's manifests in a dataset: joined by SPIs, and compared."""

import json

import polars as pl
import pytest

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.dataset.compare.columns import RowCondition
from ikeanalyze.dataset.compare.compare import ComparisonRequest, compare_groups
from ikeanalyze.dataset.compare.source import open_tables
from ikeanalyze.dataset.dataset import open_dataset
from tests.dataset.made import batch, capture
from tests.paths import LAB_CAPTURES

NAMES = ("eap-aaa-loss", "loss20", "wrong-psk")
HOSTS = ("initiator", "responder", "aaa")
FIGURES = [
    *("measure", "jobs", "warm_up", "attempts", "initiator_clock_ms"),
    *(f"{host}_{cost}" for host in HOSTS for cost in ("processor_ms", "rss_bytes")),
]


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """Three recordings, two handshakes of the first of which are warm-ups, and a capture without manifest."""
    folder = tmp_path_factory.mktemp("runs")
    for name in NAMES:
        (folder / f"{name}.pcapng").write_bytes((LAB_CAPTURES / f"{name}.pcapng").read_bytes())
        manifest = json.loads((LAB_CAPTURES / f"{name}.manifest.json").read_text())
        if name == "eap-aaa-loss":
            manifest["machine"]["jobs"] = 2
            manifest["scenario"]["measure"] = "costs"
            for number, handshake in enumerate(manifest["handshakes"]):
                handshake["warm_up"] = number < 2
        (folder / f"{name}.manifest.json").write_text(json.dumps(manifest))
    (folder / "other.pcap").write_bytes(capture(1))
    return folder


@pytest.fixture(scope="module")
def dataset(recordings, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "dataset"
    batch(path, recordings)
    return path


def read_manifest(folder, name):
    return json.loads((folder / f"{name}.manifest.json").read_text())


@pytest.mark.parametrize("name", NAMES[:2])
def test_each_handshake_has_the_figures_of_its_entry(recordings, dataset, name):
    rows = open_dataset(dataset).handshakes.filter(pl.col("capture").str.ends_with(f"{name}.pcapng")).collect()
    entries = {entry["spi_i"]: entry for entry in read_manifest(recordings, name)["handshakes"]}
    assert rows.height == len(entries)
    for row in rows.iter_rows(named=True):
        entry = entries.pop(row["spi_i"])
        assert row["spi_r"] == entry["spi_r"]
        assert row["initiator_clock_ms"] == entry["ms"]
        assert row["warm_up"] is entry.get("warm_up", False)
        assert row["attempts"] is None
        for host in HOSTS:
            cost = entry["costs"].get(host, {"processor_ms": None, "rss_after_bytes": None})
            assert row[f"{host}_processor_ms"] == cost["processor_ms"]
            assert row[f"{host}_rss_bytes"] == cost["rss_after_bytes"]
        assert (row["measure"], row["jobs"]) == (("costs", 2) if name == "eap-aaa-loss" else ("keys", None))


def test_a_handshake_that_made_no_ike_sa_has_the_figures_of_its_capture_alone(dataset):
    rows = open_dataset(dataset).handshakes.filter(pl.col("capture").str.ends_with("wrong-psk.pcapng"))
    assert rows.select(FIGURES).collect().rows() == [("keys", *[None] * 10)]


def test_without_manifest_all_are_null(recordings, dataset):
    rows = open_dataset(dataset).handshakes.filter(pl.col("capture").str.ends_with("other.pcap"))
    assert rows.select(FIGURES).collect().rows() == [(None,) * 11]
    unread = read_captures(recordings / "loss20.pcapng", ReadOptions(lab_manifests=False)).handshakes
    assert unread.select(FIGURES).null_count().row(0) == (unread.height,) * 11


def test_a_handshake_that_is_not_in_the_capture_is_named(recordings, tmp_path):
    manifest = read_manifest(recordings, "loss20")
    manifest["handshakes"][3]["spi_i"] = "0123456789abcdef"
    (tmp_path / "loss20.manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "loss20.pcapng").write_bytes((recordings / "loss20.pcapng").read_bytes())
    batch(tmp_path / "data", tmp_path)
    ((warnings,),) = open_dataset(tmp_path / "data").captures.select("warnings").collect().rows()
    assert [text for text in warnings if "manifest" in text] == [
        "1 of 10 handshakes of the lab's manifest is not in the capture (number 4)"
    ]


def test_both_captures_of_a_handshake_have_its_figures(recordings, tmp_path):
    manifest = read_manifest(recordings, "loss20")
    manifest["files"]["captures"] = {"responder": "loss20.pcapng", "initiator": "loss20.initiator.pcapng"}
    (tmp_path / "loss20.manifest.json").write_text(json.dumps(manifest))
    for name in manifest["files"]["captures"].values():
        (tmp_path / name).write_bytes((recordings / "loss20.pcapng").read_bytes())
    batch(tmp_path / "data", tmp_path)
    rows = open_dataset(tmp_path / "data").handshakes.sort("handshake").collect()
    for _, part in rows.group_by("capture"):
        assert part["initiator_clock_ms"].to_list() == [entry["ms"] for entry in manifest["handshakes"]]
    assert rows["capture"].n_unique() == 2


def compare(dataset, **request):
    return compare_groups(open_tables(str(dataset)), ComparisonRequest(**{"by": ["measure"], **request}))


def test_costs_are_compared_without_warm_ups(recordings, dataset):
    result = compare(dataset, metrics=["initiator_processor_ms"])
    (metric,) = result.metrics
    assert [(group.values[0], group.handshakes) for group in result.groups] == [("costs", 4), ("keys", 11), (None, 1)]
    entries = read_manifest(recordings, "eap-aaa-loss")["handshakes"][2:]
    measured = sorted(entry["costs"]["initiator"]["processor_ms"] for entry in entries)
    assert metric.groups[0].sample.tolist() == measured
    assert metric.groups[0].mean.value == pytest.approx(sum(measured) / 4)
    assert (result.warm_up, metric.unit) == (2, "ms")


@pytest.mark.parametrize(
    ("request_", "counted"),
    [
        ({"warm_up": True}, [6, 11, 1]),
        ({"where": [RowCondition("warm_up", "true")]}, [2]),
        ({"where": [RowCondition("warm_up", "false")]}, [4, 10]),
        ({"by": ["warm_up"]}, [14, 2, 2]),
    ],
)
def test_warm_ups_that_are_asked_for_are_in_groups(dataset, request_, counted):
    result = compare(dataset, **request_)
    assert ([group.handshakes for group in result.groups], result.warm_up) == (counted, 0)
