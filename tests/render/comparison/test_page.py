"""The page of a comparison has the numbers of its document."""

import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from ikeanalyze.dataset.compare.compare import ComparisonRequest, compare_groups
from ikeanalyze.render import RenderOptions
from ikeanalyze.render.comparison.document import build_document
from ikeanalyze.render.comparison.figures import make_figures, make_group_labels
from ikeanalyze.render.comparison.page import render_page
from ikeanalyze.render.core.figures.style import PAGE, SINGLE
from tests.dataset.compare.test_predicted import measured, prediction, write
from tests.dataset.grouped import tables, times
from tests.render.html.pages import Page

CLASSIC, PQ = (3.0, 4.0, 5.0, 6.0, 7.5), (9.0, 11.0, 12.0, 13.0, 14.5, 16.0)


@pytest.fixture(scope="module")
def comparison():
    rows = times("classic", *CLASSIC) + times("pq", *PQ) + [{"config": "pq", "outcome": "failed"}]
    return compare_groups(tables(rows), ComparisonRequest(["config"], metrics=["setup_ms"], resamples=200))


def test_numbers_are_those_of_the_document(comparison):
    page = Page(render_page(comparison))
    document = build_document(comparison)
    head, *rows = page.tables["Groups"]
    assert [row[0] for row in rows] == [group["values"]["config"] for group in document["groups"]] == ["classic", "pq"]
    assert [row[head.index("handshakes")] for row in rows] == ["5", "7"]
    assert [row[head.index("failed")] for row in rows] == ["0", "1"]
    head, *rows = page.tables["setup_ms"]
    for row, group in zip(rows, document["metrics"][0]["groups"], strict=True):
        cells = dict(zip(head, row, strict=True))
        assert cells["counted"] == str(group["counted"])
        for name in ("mean", "median", "p95"):
            assert float(cells[name]) == pytest.approx(group[name]["value"], rel=1e-3)
    assert [float(row[head.index("mean")]) for row in rows] == [5.1, 12.58]  # 25.5 / 5, 75.5 / 6
    ratio = page.tables["setup_ms, against config classic"][1][1]
    assert float(ratio) == pytest.approx((75.5 / 6) / 5.1, rel=1e-3)


def test_the_page_has_the_figures_of_the_comparison(comparison):
    names = [figure.name for figure in make_figures(comparison)]
    assert names == ["setup_ms-means", "setup_ms-density", "setup_ms-cumulative"]
    page = Page(render_page(comparison))
    assert [a["id"] for tag, a in page.tags if tag == "figure"] == [f"figure-{name}" for name in names]


def test_against_a_number():
    """Loss is on the axis, and each configuration is a line."""
    rows = [
        {**row, "loss": loss}
        for loss, factor in ((0.0, 1), (5.0, 2), (20.0, 4))
        for config, values in (("classic", CLASSIC), ("pq", PQ))
        for row in times(config, *(value * factor for value in values))
    ]
    found = compare_groups(
        tables(rows, ("config", "loss")), ComparisonRequest(["config", "loss"], metrics=["setup_ms"], resamples=200)
    )
    figures = {figure.name: figure for figure in make_figures(found)}
    assert figures["setup_ms-against-loss"].title == "Set-up time against loss"


def test_groups_have_names_that_differ():
    """A chart cuts a long name at its end, where names of configurations differ."""
    configs = [f"aes256gcm16-prfsha384-ecp384-ke1_mlkem{size}" for size in (512, 768, 1024)]
    rows = [{**row, "loss": loss} for config in configs for loss in (0.0, 5.0) for row in times(config, *CLASSIC)]
    found = compare_groups(
        tables(rows, ("config", "loss")), ComparisonRequest(["config", "loss"], metrics=["setup_ms"], resamples=200)
    )
    figures = {figure.name: figure for figure in make_figures(found)}
    for name, different in (("setup_ms-means", 6), ("setup_ms-cumulative", 6), ("setup_ms-against-loss", 3)):
        for style in (PAGE, SINGLE):
            svg = ET.fromstring(figures[name].draw(style))
            texts = [node.text or "" for node in svg.iter("{http://www.w3.org/2000/svg}text")]
            assert len({text for text in texts if text.startswith("aes256gcm16")}) == different, texts
    assert "by config, loss" in figures["setup_ms-cumulative"].caption


def test_a_distribution_of_one_group_says_of_which():
    """One value has no distribution."""
    rows = times("classic", 3.0) + times("pq", *PQ)
    found = compare_groups(tables(rows), ComparisonRequest(["config"], metrics=["setup_ms"], resamples=200))
    captions = {figure.name: figure.caption for figure in make_figures(found)}
    assert captions["setup_ms-cumulative"].startswith("6 handshakes of pq. ")


def test_two_groups_of_one_name_are_two():
    """One value with a comma, or two values."""
    rows = [{**row, "tail": tail} for config, tail in (("a, b", "c"), ("a", "b, c")) for row in times(config, *CLASSIC)]
    found = compare_groups(
        tables(rows, ("config", "tail")), ComparisonRequest(["config", "tail"], metrics=["setup_ms"], resamples=200)
    )
    assert make_group_labels(found) == ["a, b, c", "a, b, c (2)"]
    cumulative = next(one for one in make_figures(found) if one.name == "setup_ms-cumulative")
    assert cumulative.caption.startswith("10 handshakes")


@pytest.mark.parametrize(
    ("columns", "values", "label"),
    [
        (("config", "link_loss_percent"), ("classic", 20), "classic, loss 20 %"),
        (("rtt_ms", "jobs"), (2.5, 3), "rtt 2.5 ms, jobs 3"),
        (("link_nat", "config"), (True, "20"), "nat true, 20"),
    ],
)
def test_numbers_in_legends_have_the_name_and_unit_of_their_column(comparison, columns, values, label):
    group = replace(comparison.groups[0], values=values)
    assert make_group_labels(replace(comparison, by=columns, groups=[group])) == [label]


def test_a_hostile_label_stays_text():
    bad = "</script><script>hacked=1</script><img src=x onerror=hacked=1>"
    rows = times(bad, *CLASSIC) + times("pq", *PQ)
    page = Page(
        render_page(compare_groups(tables(rows), ComparisonRequest(["config"], metrics=["setup_ms"], resamples=200)))
    )
    assert [kind for kind, _ in page.scripts] == [{}]
    assert "img" not in {tag for tag, _ in page.tags}
    assert bad in [row[0] for row in page.tables["Groups"]]


def test_one_value_makes_a_page():
    page = Page(
        render_page(compare_groups(tables(times("classic", 3.0)), ComparisonRequest(["config"], metrics=["setup_ms"])))
    )
    assert page.tables["setup_ms"][1][:3] == ["classic", "1", "3"]


def test_figures_of_a_sum_name_its_parts():
    rows = [{"config": config, "initiator_bytes": 1000, "responder_bytes": n} for config in "ab" for n in (300, 400)]
    request = ComparisonRequest(["config"], metrics=["initiator_bytes+responder_bytes"], resamples=200)
    means = next(make_figures(compare_groups(tables(rows), request)))
    assert (means.name, means.title) == (
        "initiator_bytes_plus_responder_bytes-means",
        "Initiator + responder: mean by config",
    )


def test_lines_have_figures():
    """Two groups with a line, and one of which all handshakes have the same number."""
    rows = [
        {**row, "x": x}
        for config, xs in (
            ("classic", (1.0, 2.0, 3.0, 4.0, 5.0)),
            ("pq", (2.0, 4.0, 5.0, 7.0, 7.5)),
            ("tcp", (3.0,) * 5),
        )
        for row, x in zip(times(config, *CLASSIC), xs, strict=True)
    ]
    request = ComparisonRequest(["config"], metrics=["setup_ms"], against="x", resamples=200)
    comparison = compare_groups(tables(rows, ("config", "x")), request)
    figures = {figure.name: figure for figure in make_figures(comparison)}
    line, by_group = figures["setup_ms-line-x"], figures["setup_ms-line-x-groups"]
    assert line.title == "Set-up time over x: line"
    assert "95 % confidence band" in line.caption
    assert line.caption.endswith("; 15 handshakes.")
    assert by_group.caption.endswith("Without a line: tcp.")
    drawn = ET.fromstring(line.draw(SINGLE))
    labels = [node.get("aria-label") for node in drawn.iter("{http://www.w3.org/2000/svg}path")]
    assert sum(label in {"classic: 1, 3", "pq: 7.500, 7.500"} for label in labels) == 2
    assert "Set-up time over x: line" in render_page(comparison)


def test_one_group_has_one_line():
    rows = [{**row, "x": float(x)} for x, row in enumerate(times("classic", *CLASSIC))]
    request = ComparisonRequest(["config"], metrics=["setup_ms"], against="x", resamples=200)
    names = [figure.name for figure in make_figures(compare_groups(tables(rows, ("config", "x")), request))]
    assert [name for name in names if "line" in name] == ["setup_ms-line-x"]


def test_predictions_are_drawn_with_another_mark(tmp_path):
    file = write(tmp_path / "p.json", *(prediction(loss) for loss in (0.05, 0.2)))
    rows = [row for loss, size in ((5.0, 4000), (20.0, 6000)) for row in measured(loss=loss, sizes=(size, size + 500))]
    request = ComparisonRequest(["loss"], metrics=["bytes"], predicted=[file], resamples=200)
    comparison = compare_groups(tables(rows, ("config", "loss")), request)
    figure = {figure.name: figure for figure in make_figures(comparison)}["bytes-against-loss"]
    assert "Hollow diamonds on dashed lines: predicted means" in figure.caption
    paths = list(ET.fromstring(figure.draw(SINGLE)).iter("{http://www.w3.org/2000/svg}path"))
    labels = {path.get("aria-label", ""): path for path in paths}
    predicted = [path for label, path in labels.items() if "predicted mean 4,000" in label]
    assert len(predicted) == 2
    assert all(path.get("fill") is None and path.get("stroke") for path in predicted)
    assert any(path.get("stroke-dasharray") == "4,3" for path in paths)
    assert "bytes, measured against predicted" in Page(render_page(comparison)).tables


@pytest.fixture(scope="module")
def powers():
    """Means of 0, 10 and 1,000 ms at 0, 5 and 20 % of loss; the handshakes of the last are far apart."""
    rows = [
        {**row, "loss": loss}
        for loss, values in ((0.0, (0, 0, 0)), (5.0, (9, 10, 11)), (20.0, (1, 1, 2998)))
        for row in times("pq", *values)
    ]
    request = ComparisonRequest(["loss"], metrics=["setup_ms"], against="loss", resamples=200)
    return compare_groups(tables(rows, ("config", "loss")), request)


def read_places(figure, label):
    """Coordinates of the marks whose labels begin so, in the order of the drawing."""
    paths = ET.fromstring(figure.draw(SINGLE)).iter("{http://www.w3.org/2000/svg}path")
    marks = [path.get("transform") for path in paths if path.get("aria-label", "").startswith(label)]
    return [tuple(float(number) for number in re.findall(r"[-\d.]+", mark)) for mark in marks]


def test_logarithmic_axes(powers):
    """Values of 0 have no place on them: they are left out and counted."""
    view = RenderOptions(log_x=True, log_y=True)
    figures = {figure.name: figure for figure in make_figures(powers, view)}
    against = figures["setup_ms-against-loss"]
    assert "Left out because of logarithmic axes: 1 of 3 means, at or below 0." in against.caption
    ((x_5, y_5),), ((x_20, y_20),) = (read_places(against, f"loss {loss}:") for loss in (5, 20))
    texts = ET.fromstring(against.draw(SINGLE)).iter("{http://www.w3.org/2000/svg}text")
    assert {"1", "10", "100", "1,000"} <= {text.text for text in texts}
    assert read_places(against, "loss 0:") == []
    assert (x_5 < x_20, y_5 > y_20) == (True, True)
    assert figures["setup_ms-line-loss"].caption.endswith(
        "Left out because of logarithmic axes: 3 of 9 handshakes, at or below 0."
    )
    assert "Left out because of a logarithmic axis: 1 of 3 means" in figures["setup_ms-means"].caption


def test_one_logarithmic_axis(powers):
    for view in (RenderOptions(log_x=True), RenderOptions(log_y=True)):
        against = next(figure for figure in make_figures(powers, view) if figure.name == "setup_ms-against-loss")
        assert "Left out because of a logarithmic axis: 1 of 3 means, at or below 0." in against.caption
        assert read_places(against, "loss 0:") == []


def test_linear_axes_leave_nothing_out(powers):
    for figure in make_figures(powers):
        assert "logarithmic ax" not in figure.caption
    against = next(figure for figure in make_figures(powers) if figure.name == "setup_ms-against-loss")
    assert len(read_places(against, "loss 0:")) == 1


@pytest.mark.parametrize("values", [(0.0, 0.0, 0.0), (-3.0, -2.0, -1.0)])
def test_logarithmic_axes_without_positive_values(values):
    rows = [{**row, "x": x} for row, x in zip(times("a", 0, 0, 0), values, strict=True)]
    rows += [{**row, "x": 1.0} for row in times("b", 0, 0, 0)]
    request = ComparisonRequest(["config", "x"], metrics=["setup_ms"], against="x", resamples=200)
    comparison = compare_groups(tables(rows, ("config", "x")), request)
    for figure in make_figures(comparison, RenderOptions(log_x=True, log_y=True)):
        figure.draw(SINGLE)
