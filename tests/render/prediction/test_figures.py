import re
from dataclasses import replace

import pytest

from ikeanalyze.render.core.figures.style import SINGLE
from ikeanalyze.render.prediction.figures import make_figures
from ikeanalyze.render.prediction.formats import write_prediction_figures
from tests.render.prediction_examples import failed, prediction, sweep


def figures(predictions):
    return {figure.name: figure for figure in make_figures(predictions)}


def test_a_sweep_of_loss_has_curves_against_it():
    result = figures(sweep())
    assert [name for name in result if "against" in name] == [
        "setup_ms-against-loss",
        "bytes-against-loss",
        "failures-against-loss",
    ]
    svg = result["setup_ms-against-loss"].draw(SINGLE)
    # a point for each prediction says what it is
    reported = re.findall(r'aria-label="([ab]\.pcap, loss [^"]*)"', svg)
    assert "a.pcap, loss % 10: 200 ms" in reported
    assert len(reported) == 6


def test_a_logarithmic_axis():
    def get_heights(log_y):
        (figure,) = [item for item in make_figures(sweep(), log_y=log_y) if item.name == "setup_ms-against-loss"]
        points = re.findall(
            r'aria-label="a\.pcap, loss % \d+: (\d+) ms"[^>]*transform="translate\([^,]*,([0-9.]+)\)',
            figure.draw(SINGLE),
        )
        return {int(value): float(height) for value, height in points}

    heights = get_heights(log_y=True)
    # 100, 200 and 300 ms: steps of equal ratio are equally high
    assert (heights[100] - heights[200]) / (heights[200] - heights[300]) == pytest.approx(1.71, abs=0.02)
    linear = get_heights(log_y=False)
    assert (linear[100] - linear[200]) / (linear[200] - linear[300]) == pytest.approx(1, abs=0.02)
    # the end of an interval that includes 0 stays on the axis
    wide = [replace(item, bytes=replace(item.bytes, mean_error=item.bytes.mean)) for item in sweep()]
    assert all("NaN" not in figure.draw(SINGLE) for figure in make_figures(wide, log_y=True))


def test_without_failures_there_is_no_failure_figure():
    fine = [prediction(link={"rtt_ms": rtt}, failures=0, failure=(0.0, 0.0, 0.0004)) for rtt in (10, 600)]
    assert [name for name in figures(fine) if "against" in name] == ["setup_ms-against-rtt_ms", "bytes-against-rtt_ms"]


def test_distributions_of_a_few():
    assert {"setup_ms-predicted-density", "setup_ms-predicted-cumulative"} <= set(figures([prediction()]))
    without = [prediction(samples={}), prediction(samples={}, flow={"capture": "b.pcap"})]
    assert figures(without) == {}


def test_unsuitable_predictions_have_no_figure():
    assert figures([failed()]) == {}
    # an MTU that is not known has no place on an axis; eight lines have no colours
    assert not any("mtu" in name for name in figures([prediction(link={"mtu": mtu}) for mtu in (None, 1280)]))
    lines = [
        prediction(flow={"capture": f"{i}.pcap"}, link={"loss": loss}, samples={})
        for i in range(8)
        for loss in (0, 0.1)
    ]
    assert figures(lines) == {}
    # where nothing succeeds there are failures all the same
    assert list(figures([failed(link={"loss": loss}) for loss in (0.5, 0.6)])) == ["failures-against-loss"]


def test_each_figure_is_written_as_pdf_png_and_svg(tmp_path):
    written = write_prediction_figures(
        [prediction(link={"loss": loss}, samples={}) for loss in (0, 0.1)], str(tmp_path / "f")
    )
    assert sorted(path.name for path in written)[:3] == [
        f"bytes-against-loss.{ending}" for ending in ("pdf", "png", "svg")
    ]
    assert all(path.stat().st_size > 1000 for path in written)
