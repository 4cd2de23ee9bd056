"""The page of a comparison has the numbers of its document."""

import pytest

from ikeanalyze.dataset.compare import compare
from ikeanalyze.render.comparison_document import document
from ikeanalyze.render.figures.comparison import comparison_figures
from ikeanalyze.render.html.comparison import comparison_page
from tests.dataset.grouped import tables, times
from tests.render.html.pages import Page

CLASSIC, PQ = (3.0, 4.0, 5.0, 6.0, 7.5), (9.0, 11.0, 12.0, 13.0, 14.5, 16.0)


@pytest.fixture(scope="module")
def comparison():
    rows = times("classic", *CLASSIC) + times("pq", *PQ) + [{"config": "pq", "outcome": "failed"}]
    return compare(tables(rows), ["config"], metrics=["setup_ms"], resamples=200)


def test_numbers_are_those_of_the_document(comparison):
    page = Page(comparison_page(comparison))
    said = document(comparison)
    head, *rows = page.tables["Groups"]
    assert (
        [row[0] for row in rows]
        == [group["values"]["config"] for group in said["groups"]]
        == ["classic", "pq"]
    )
    assert [row[head.index("handshakes")] for row in rows] == ["5", "7"]
    assert [row[head.index("failed")] for row in rows] == ["0", "1"]
    head, *rows = page.tables["setup_ms"]
    for row, group in zip(rows, said["metrics"][0]["groups"], strict=True):
        cells = dict(zip(head, row, strict=True))
        assert cells["counted"] == str(group["counted"])
        for name in ("mean", "median", "p95"):
            assert float(cells[name]) == pytest.approx(group[name]["value"], rel=1e-3)
    assert [float(row[head.index("mean")]) for row in rows] == [5.1, 12.58]  # 25.5 / 5, 75.5 / 6
    ratio = page.tables["setup_ms, against config classic"][1][1]
    assert float(ratio) == pytest.approx((75.5 / 6) / 5.1, rel=1e-3)


def test_figures(comparison):
    names = [figure.name for figure in comparison_figures(comparison)]
    assert names == ["setup_ms-means", "setup_ms-density", "setup_ms-cumulative"]
    page = Page(comparison_page(comparison))
    assert [a["id"] for tag, a in page.tags if tag == "figure"] == [f"figure-{name}" for name in names]


def test_against_a_number():
    """Loss is on the axis, and each configuration is a line."""
    rows = [
        {**row, "loss": loss}
        for loss, factor in ((0.0, 1), (5.0, 2), (20.0, 4))
        for config, values in (("classic", CLASSIC), ("pq", PQ))
        for row in times(config, *(value * factor for value in values))
    ]
    found = compare(tables(rows, ("config", "loss")), ["config", "loss"], metrics=["setup_ms"], resamples=200)
    figures = {figure.name: figure for figure in comparison_figures(found)}
    assert figures["setup_ms-against-loss"].title == "Set-up time against loss"


def test_a_hostile_label_stays_text():
    bad = "</script><script>hacked=1</script><img src=x onerror=hacked=1>"
    rows = times(bad, *CLASSIC) + times("pq", *PQ)
    page = Page(comparison_page(compare(tables(rows), ["config"], metrics=["setup_ms"], resamples=200)))
    assert [kind for kind, _ in page.scripts] == [{}]
    assert "img" not in {tag for tag, _ in page.tags}
    assert bad in [row[0] for row in page.tables["Groups"]]


def test_one_value_makes_a_page():
    page = Page(comparison_page(compare(tables(times("classic", 3.0)), ["config"], metrics=["setup_ms"])))
    assert page.tables["setup_ms"][1][:3] == ["classic", "1", "3"]
