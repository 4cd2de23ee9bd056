"""Predictions of a report on named links."""

import pytest

from ikeanalyze.papers import PaperError
from ikeanalyze.papers.claims import LinkPrediction
from ikeanalyze.papers.link_predictions import make_prediction_table
from tests.paths import CAPTURES


def predict(capture: str, *links: str):
    spec = LinkPrediction(id="p", capture=capture, links=links, budgets_ms=(50, 300))
    return make_prediction_table([spec], CAPTURES)


def test_set_up_takes_the_round_trips_to_gateway_and_aaa_server():
    """EAP-AKA: 10 messages are 5 round trips of 60 ms, and 6 RADIUS packets 3 of 10 ms (centralized), or 20 and 60."""
    rows = predict("lab/eap-aka.pcapng", "epc-centralized-wifi", "epc-flat-wifi").to_dicts()
    assert [(row["link"], row["budget_ms"]) for row in rows] == [
        (link, budget) for link in ("epc-centralized-wifi", "epc-flat-wifi") for budget in (50, 300)
    ]
    centralized, flat = rows[1], rows[3]
    # the same computation; each byte takes as long on both
    assert centralized["setup_ms"] - flat["setup_ms"] == pytest.approx((300 + 30) - (100 + 180), abs=0.1)
    assert centralized["share"] == 0  # 330 ms are more than 300


def test_a_capture_that_does_not_exist_is_an_error():
    with pytest.raises(PaperError, match="no such capture"):
        predict("lab/none.pcapng", "epc-flat-wifi")


def test_a_link_that_does_not_exist_is_an_error():
    with pytest.raises(PaperError, match="epc-round"):
        predict("lab/psk.pcapng", "epc-round")
