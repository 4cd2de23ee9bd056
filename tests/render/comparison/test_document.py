import csv
import io
import json

import pytest
from scipy import stats

from ikeanalyze.dataset.compare.compare import ComparisonRequest, compare_groups
from ikeanalyze.render import Format
from ikeanalyze.render.comparison.formats import FORMATS
from tests.dataset.grouped import tables
from tests.render.comparison_examples import comparison
from tests.render.render_text import written


def test_the_json_document_has_all_values():
    document = json.loads(written(FORMATS, comparison(), Format.JSON))
    metrics, groups = document.pop("metrics"), document.pop("groups")
    assert document == {
        "schema": "ikeanalyze.comparison/1",
        "source": "runs",
        "by": ["config", "loss"],
        "baseline": "classic",
        "where": [{"column": "run", "value": "1"}],
        "outcomes": ["established", "completed"],
        "confidence": 0.95,
        "resamples": 2000,
        "test": "Mann-Whitney U, two-sided",
        "correction": "Benjamini-Yekutieli",
        "unread": 1,
        "complete": False,
        "rekeyed": 2,
        "warm_up": 5,
        "remarks": [],
    }
    assert groups[1] == {
        "values": {"config": "classic", "loss": 20.0},
        "baseline": None,
        "captures": 1,
        "handshakes": 12,
        "failures": 2,
        "outcomes": {"established": 4, "completed": 6, "failed": 2, "unanswered": 0, "half-open": 0, "cut": 0},
    }
    assert [group["baseline"] for group in groups] == [None, None, 0, 1, None]
    assert [(metric["name"], metric["unit"]) for metric in metrics] == [("setup_ms", "ms"), ("bytes", "bytes")]
    group = metrics[0]["groups"][2]
    assert group["values"] == {"config": "pq | <b>\x1b[31m", "loss": 5.0}
    assert group["p95"] == {"value": 25.0, "low": 11.25, "high": None, "method": "order statistics", "resamples": None}
    assert group["against"] == {
        "ratio": {
            "value": 2.041,
            "low": 2.041 - 0.2,
            "high": 2.041 + 0.2,
            "method": "BCa bootstrap",
            "resamples": 2000,
        },
        "u": 12.0,
        "p": 0.00001605,
        "p_method": "exact",
        "p_corrected": 0.0000321,
        "differs": True,
    }
    assert group["sum"] == 125.0
    empty = metrics[0]["groups"][4]
    assert (empty["counted"], empty["mean"], empty["against"]) == (0, None, None)
    assert empty["left_out"] == {"failed": 2}
    assert "sample" not in group


def test_csv_has_a_row_per_value():
    rows = list(csv.DictReader(io.StringIO(written(FORMATS, comparison(), Format.CSV))))
    assert len(rows) == 10
    assert [row["metric"] for row in rows] == ["setup_ms"] * 5 + ["bytes"] * 5
    pq = rows[2]
    assert (pq["config"], pq["loss"], pq["handshakes"], pq["counted"]) == ("pq | <b>\\x1b[31m", "5.0", "10", "10")
    assert (pq["mean"], pq["p95_high"], pq["ratio"], pq["p_corrected"], pq["differs"]) == (
        "12.5",
        "",
        "2.041",
        "3.21e-05",
        "true",
    )
    assert {rows[4][name] for name in rows[4]} == {"setup_ms", "", "1", "2", "0"}
    assert (pq["sum"], rows[4]["sum"]) == ("125.0", "")
    assert rows[8]["ratio"] == ""
    assert rows[8]["differs"] == "false"


@pytest.fixture(scope="module")
def fitted():
    """Two groups with a line each, and one whose handshakes have the same number of messages."""
    rows = [
        {"config": config, "x": float(x), "setup_ns": y * 1_000_000}
        for config, points in (
            ("a", ((1, 10), (2, 20), (3, 60))),
            ("b", ((1, 7), (2, 9), (4, 10))),
            ("c", ((4, 1), (4, 2))),
        )
        for x, y in points
    ]
    request = ComparisonRequest(["config"], metrics=["setup_ms"], against="x", resamples=200)
    return compare_groups(tables(rows, ("config", "x")), request)


def test_the_document_has_lines(fitted):
    (metric,) = json.loads(written(FORMATS, fitted, Format.JSON))["metrics"]
    lines = metric["regression"]
    assert (lines["against"], lines["unit"]) == ("x", None)
    assert [line["values"] for line in lines["groups"]] == [{"config": config} for config in "abc"]
    a, _, c = (line["line"] for line in lines["groups"])
    expected = stats.linregress([1, 2, 3], [10, 20, 60])
    t = stats.t.ppf(0.975, 1)
    assert a["slope"] == {
        "value": pytest.approx(expected.slope),
        "low": pytest.approx(expected.slope - t * expected.stderr),
        "high": pytest.approx(expected.slope + t * expected.stderr),
        "method": "Student's t",
    }
    assert (a["x_mean"], a["x_deviation"], a["x_least"], a["x_greatest"]) == (2, 1, 1, 3)
    assert (len(a["band"]), a["band"][0]["x"], a["band"][10]["x"]) == (11, 1, 3)
    assert a["band"][5]["mean"] == pytest.approx(30)  # at the mean of x the line has the mean of y
    assert c is None
    assert lines["all"]["counted"] == 8


def test_csv_with_lines_is_rectangular(fitted):
    text = written(FORMATS, fitted, Format.CSV)
    assert len({len(row) for row in csv.reader(io.StringIO(text))}) == 1
    a, _, c, overall = csv.DictReader(io.StringIO(text))
    assert (a["kind"], a["against"], a["pairs"], float(a["slope"])) == ("group", "x", "3", pytest.approx(25))
    assert (c["kind"], c["slope"], c["mean"]) == ("group", "", "1.5")
    assert (overall["metric"], overall["kind"], overall["config"], overall["mean"]) == (
        "setup_ms",
        "all groups",
        "",
        "",
    )
    expected = stats.linregress([1, 2, 3, 1, 2, 4, 4, 4], [10, 20, 60, 7, 9, 10, 1, 2])
    assert float(overall["slope_high"]) == pytest.approx(expected.slope + stats.t.ppf(0.975, 6) * expected.stderr)


def test_the_terminal_has_lines(fitted):
    lines = written(FORMATS, fitted, Format.TERMINAL).splitlines()
    start = lines.index("setup_ms as a line over x")
    rows = [line.split() for line in lines[start + 2 : start + 6]]
    assert rows[0][:3] == ["a", "3", "25.00"]
    assert rows[2] == ["c", *"-----"]  # no room for the interval of the intercept
    assert rows[3][:3] == ["all", "groups", "8"]
