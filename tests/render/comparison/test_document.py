import csv
import io
import json

from ikeanalyze.render import Format
from ikeanalyze.render.comparison.formats import FORMATS
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
