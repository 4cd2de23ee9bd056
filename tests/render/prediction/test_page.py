"""The page of predictions has the numbers of its document."""

from ikeanalyze.render import Format, RenderOptions
from ikeanalyze.render.prediction.document import build_document
from ikeanalyze.render.prediction.formats import FORMATS
from ikeanalyze.render.prediction.page import render_page
from tests.render.html.pages import Page
from tests.render.prediction_examples import prediction, sweep


def test_numbers_are_those_of_the_document():
    page = Page(render_page(sweep()))
    head, *rows = page.tables["Predicted"]
    predictions = build_document(sweep())["predictions"]
    assert [float(row[head.index("set-up ms")]) for row in rows] == [item["setup_ms"]["mean"] for item in predictions]
    assert [row[:2] for row in rows[:3]] == [["a.pcap", "0"], ["a.pcap", "10"], ["a.pcap", "20"]]


def test_figures_and_names():
    page = Page(render_page([prediction(flow={"capture": "<b>x</b>.pcap"})]))
    assert [a["id"] for tag, a in page.tags if tag == "figure"] == [
        f"figure-{field}-predicted-{kind}" for field in ("setup_ms", "bytes") for kind in ("density", "cumulative")
    ]
    assert "b" not in [tag for tag, _ in page.tags]
    assert [row[0] for row in page.tables["Distribution"][1:]] == ["set-up ms", "bytes", "messages", "frames"]


def test_the_option_of_a_logarithmic_axis_is_that_of_the_page(tmp_path):
    pages = {log_y: render_page(sweep(), log_y=log_y) for log_y in (False, True)}
    for log_y, page in pages.items():
        FORMATS.write(sweep(), Format.HTML, str(tmp_path / "page.html"), RenderOptions(log_y=log_y))
        assert (tmp_path / "page.html").read_text() == page
    assert pages[True] != pages[False]
