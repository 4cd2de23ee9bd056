"""The comparison of predictions with campaigns, on recordings of the lab and on values with known distributions."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.prediction import validate
from ikeanalyze.lab.scenario.expansion import load_cases
from ikeanalyze.model.prediction.predict import predict_handshake
from tests.model.flows import flow
from tests.paths import CAPTURES, ROOT

SCENARIOS = ROOT / "benchmarks" / "prediction" / "scenarios"


@pytest.fixture
def point():
    return validate.read_point(CAPTURES / "lab" / "loss20.pcapng")


def test_link_and_timers_are_those_of_the_manifest(point):
    # scenarios/loss20.toml
    assert (point.link.loss, point.link.rtt_ms, point.transmission.fragment_size) == (0.2, 0, 1280)
    assert point.transmission.policy.waits[:2] == pytest.approx((0.3, 0.39))
    assert len(point.transmission.policy.waits) == 9
    assert (point.failures, {len(values) for values in point.measured.values()}) == (0, {10})
    assert point.name == "20 %, RTT 0 ms, fragments 1280, timer 0.3 s"


def test_the_set_up_time_is_the_initiators():
    satellite = validate.read_point(CAPTURES / "lab" / "satellite.pcapng")
    # two round trips of 600 ms
    assert (satellite.measured["setup_ms"] > 1200).all()


def test_warm_ups_do_not_count(tmp_path):
    for suffix in (".pcapng", ".manifest.json"):
        shutil.copy(CAPTURES / "lab" / f"loss20{suffix}", tmp_path)
    path = tmp_path / "loss20.manifest.json"
    document = json.loads(path.read_text())
    document["handshakes"][0]["warm_up"] = True
    path.write_text(json.dumps(document))
    assert len(validate.read_point(tmp_path / "loss20.pcapng").measured["bytes"]) == 9


def test_p_values_tell_the_same_distribution_from_another(point):
    recorded = flow("lab/loss20.pcapng")
    samples = predict_handshake(recorded, point.link, point.transmission, keep=True, seed=77).samples
    rng = np.random.default_rng(3)
    rows = rng.integers(len(samples["bytes"]), size=200)
    same = replace(point, measured={key: samples[key][rows] for key in point.measured})
    result = validate.compare(same, [recorded], replications=100)
    assert all(0.01 < p <= 1 for row in result.values() for p in (row.mean_p, row.ks_p))
    other = replace(point, measured={key: 1.3 * samples[key][rows] for key in point.measured})
    result = validate.compare(other, [recorded], replications=100)
    assert all(p < 0.05 for row in result.values() for p in (row.mean_p, row.ks_p))


def test_sessions_that_differ_widen_what_is_expected(point):
    recorded = flow("lab/loss20.pcapng")
    slow = tuple(
        tuple(replace(item, before_ns=10 * item.before_ns) for item in exchanges) for exchanges in recorded.samples
    )
    sessions = [recorded, replace(recorded, exchanges=slow[0], samples=slow)]
    assert len(validate.pool(sessions).samples) == 20
    # a campaign as slow as one of the sessions is not unusual, but it is if all sessions are fast
    rng = np.random.default_rng(3)
    samples = predict_handshake(sessions[1], point.link, point.transmission, keep=True, seed=77).samples
    rows = rng.integers(len(samples["bytes"]), size=200)
    campaign = replace(point, measured={key: samples[key][rows] for key in point.measured})
    assert validate.compare(campaign, sessions, replications=100)["setup_ms"].ks_p > 0.05
    assert validate.compare(campaign, sessions[:1], replications=100)["setup_ms"].ks_p < 0.05


def test_campaigns_over_a_delay_are_predicted_from_sessions_over_one(point):
    direct, delayed = flow("lab/loss20.pcapng"), flow("lab/satellite.pcapng")
    assert validate.select_sessions([direct, delayed], point.link) == [direct]
    assert validate.select_sessions([direct, delayed], replace(point.link, rtt_ms=300)) == [delayed]
    assert validate.select_sessions([direct], replace(point.link, rtt_ms=300)) == [direct]


def test_the_reference_is_a_folder_or_a_recording(tmp_path):
    for name in ("psk", "ecdsa"):
        for suffix in (".pcapng", ".manifest.json"):
            shutil.copy(CAPTURES / "lab" / f"{name}{suffix}", tmp_path)
    assert len(validate.read_sessions(tmp_path)) == 2
    assert len(validate.read_sessions(tmp_path / "psk.pcapng")) == 1


def test_the_table_has_a_row_for_each_quantity(point):
    rows = validate.compare(point, [flow("lab/loss20.pcapng")], replications=20)
    table = "".join(validate.format_table([(point, rows)]))
    assert [line.split("|")[4].strip() for line in table.splitlines()[2:5]] == ["bytes", "messages", "set-up ms"]
    # docs/predict.md has the same measured means of this recording
    assert "| bytes | 5,214 | 3,717 to 6,712 |" in table
    assert "of 6 p values are below 0.05; chance alone gives 0.3" in table


def test_the_scenarios_have_eight_points_of_sixty_handshakes():
    cases = {path.stem: load_cases(path) for path in SCENARIOS.glob("*.toml")}
    for name in ("reference", "reference-delay"):
        reference = cases.pop(name)
        assert len(reference) * reference[0].values["iterations"] == 120
        assert {case.values["link.loss_percent"] for case in reference} == {0}
    assert {name: len(items) for name, items in cases.items()} == {"loss": 5, "delay": 2, "fragments": 1}
    assert {case.values["iterations"] for items in cases.values() for case in items} == {60}
