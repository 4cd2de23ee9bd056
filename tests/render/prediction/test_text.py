import os
from dataclasses import replace
from pathlib import Path

import pytest

from ikeanalyze.model.prediction.link import IkeTransport, LossBurst, ResponseTrigger
from ikeanalyze.render import Format, RenderOptions
from ikeanalyze.render.prediction.formats import FORMATS
from ikeanalyze.render.prediction.text import (
    describe_settings,
    find_varied_settings,
    format_settings,
    format_value,
    render_sections,
)
from tests.render.prediction_examples import bursts, failed, prediction, repeated, sweep

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize(
    ("name", "made", "form", "width"),
    [
        ("prediction", lambda: [prediction()], Format.TERMINAL, 80),
        ("prediction-every-setting", lambda: [bursts()], Format.TERMINAL, 80),
        ("prediction-failed", lambda: [failed()], Format.TERMINAL, 80),
        ("prediction-sweep", sweep, Format.TERMINAL, 80),
        ("prediction-sweep-wide", sweep, Format.TERMINAL, 200),
        ("prediction-markdown", lambda: [prediction(), *sweep()], Format.MARKDOWN, None),
    ],
)
def test_the_text_equals_the_golden_file(name, made, form, width, tmp_path):
    path = tmp_path / "out"
    FORMATS.write(made(), form, str(path), RenderOptions(width=width))
    text = path.read_text()
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()
    assert "\x1b" not in text
    if width:
        assert max(map(len, text.splitlines())) <= width


def test_what_is_not_known_is_said():
    flow = prediction().flow
    first, second = flow.exchanges
    flow = replace(flow, exchanges=(first, replace(second, answer_ns=None)))
    (recorded, *_) = render_sections([replace(prediction(), flow=flow)], every=False)
    facts = dict(recorded.rows)
    assert facts["responder took"] == "-"
    assert facts["not known"].startswith("responder in IKE_AUTH 1: counts as no time")
    assert "the capture point is not known" in facts["computation"]


def test_attempts_and_budgets():
    (_, assumed, predicted, _) = render_sections([repeated()], every=False)
    assert ("failures", "attempted again at once, up to 100 attempts, which add up") in assumed.rows
    assert ("attempts", "1.25 on average") in predicted.rows
    assert ("within 50 ms", "25 % (24 to 26 %)") in predicted.rows
    *_, table = render_sections([repeated(), replace(repeated(), link=replace(repeated().link, loss=0.1))], every=False)
    names = [column.name for column in table.columns]
    for row in table.rows:
        cells = dict(zip(names, row, strict=True))
        assert (cells["attempts"], cells["% in 50 ms"], cells["% in 300 ms"]) == ("1.25", "25", "90")


def test_many_predictions_are_cut_unless_all_are_wanted():
    several = [prediction(link={"rtt_ms": rtt}) for rtt in range(40)]
    *_, table = render_sections(several, every=False)
    assert (len(table.rows), table.more) == (30, 10)
    *_, table = render_sections(several, every=True)
    assert (len(table.rows), table.more) == (40, 0)


def test_only_settings_that_vary_are_columns():
    first, second = describe_settings([prediction(), bursts()])
    assert find_varied_settings([first, second]) == [
        "capture",
        "scenario",
        "fragments",
        "jitter ms",
        "bursts",
        "rate",
        "MTU",
        "AAA RTT ms",
        "IP fragments",
    ]
    assert format_settings(second, ["scenario", "RTT ms", "loss %"]) == "ship, RTT ms 600, loss % 20"
    assert find_varied_settings([first, first]) == ["capture"]


@pytest.mark.parametrize(
    ("changes", "name", "text"),
    [
        ({"link": {"burst": LossBurst(200, False)}}, "bursts", "200 ms"),
        ({"link": {"burst": LossBurst(3, True, 0.5)}}, "bursts", "3 frames, 50 % lost within"),
        ({"link": {"rate_up": 9600, "rate_down": 9600}}, "rate", "9.6 kbit/s"),
        ({"link": {"rate_up": 200, "rate_down": 200}}, "rate", "200 bit/s"),
        ({"link": {"rate_down": 1e9}}, "rate", "any up, 1 Gbit/s down"),
        ({"link": {"rate_up": 384e3, "rate_down": 7.2e6}}, "rate", "384 kbit/s up, 7.2 Mbit/s down"),
        ({"transmission": {"fragment_size": 0}}, "fragments", "by IP"),
        ({"transmission": {"transport": IkeTransport.TCP}}, "fragments", "by TCP"),
        ({"transmission": {"transport": IkeTransport.TCP}}, "answered again", "-"),
        (
            {"transmission": {"response_trigger": ResponseTrigger.ALL}},
            "answered again",
            "when all fragments of a repeated request arrived",
        ),
    ],
)
def test_how_they_are_said(changes, name, text):
    assert describe_settings([prediction(**changes)])[0][name] == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0"), (5785.4, "5,785"), (8.5863, "8.586"), (999.96, "1,000"), (0.01234, "0.01234")],
)
def test_values_are_rounded_to_four_digits(value, text):
    assert format_value(value) == text
