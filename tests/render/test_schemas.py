"""The JSON Schemas of the package, and the documents that the builders make from examples and recorded captures."""

import json

import pytest

from ikeanalyze.analysis.handshakes.diagnosis.rule import Confidence, Effect
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.analysis.result import AnalysisWarning, SkippedFile
from ikeanalyze.analysis.schema import OUTCOMES, PROTOCOLS, VANTAGES
from ikeanalyze.render.comparison.document import build_document as build_comparison
from ikeanalyze.render.prediction.document import build_document as build_predictions
from ikeanalyze.render.replay.document import build_document as build_replay
from ikeanalyze.render.report.document import build_report, iterate_handshake_json
from ikeanalyze.render.schemas import COMMANDS, read_schema
from tests.json_schemas import list_errors, make_validator
from tests.paths import CAPTURES
from tests.render import comparison_examples, prediction_examples, replay_examples
from tests.render.analysis_examples import analysis


@pytest.mark.parametrize("name", sorted(set(COMMANDS.values())))
def test_schemas_are_schemas_of_draft_2020_12(name):
    make_validator(name)  # raises otherwise
    schema = json.loads(read_schema(name))
    assert schema["properties"]["schema"] == {"const": f"ikeanalyze.{name}/1"}
    assert "additionalProperties" not in schema  # additions are free


def test_the_values_of_enumerations_are_those_of_the_tables():
    definitions = json.loads(read_schema("report"))["$defs"]
    handshake, diagnosis = (definitions[name]["properties"] for name in ("handshake", "diagnosis"))
    assert diagnosis["effect"]["enum"] == [effect.value for effect in Effect]
    assert diagnosis["confidence"]["enum"] == [confidence.value for confidence in Confidence]
    assert handshake["outcome"]["enum"] == [*OUTCOMES.categories, None]
    assert handshake["breakdown"]["properties"]["vantage"]["enum"] == [*VANTAGES.categories, None]
    assert set(handshake["protocol"]["enum"]) == set(PROTOCOLS.categories) - {"RADIUS"}


RECORDED = ["pq-mlkem768-psk", "eap-md5-radius", "pq-followup-ke", "tcp-psk", "lab/reauthenticate", "lab/eap-aaa-loss"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [*RECORDED, "ikev1-fragments-loss15", "lab/no-proposal", "lab/ikev1_mode-main"])
@pytest.mark.parametrize("with_keys", [False, True], ids=["without keys", "with keys"])
def test_reports_of_recorded_captures(name, with_keys):
    (path,) = CAPTURES.glob(f"{name}.pcap*")
    keys = [str(file) for file in CAPTURES.glob(f"{name}.keys.json")] if with_keys else []
    report = read_captures(str(path), ReadOptions(keys=keys))
    assert list_errors(build_report(report)) == []
    for line in iterate_handshake_json(report):
        assert list_errors(json.loads(line), "handshake") == []


def test_a_report_with_everything_and_one_with_nothing():
    warnings = [AnalysisWarning("a", 3, "odd"), AnalysisWarning("a", None, "odd")]
    example = analysis(range(1, 9), warnings=warnings, skipped=[SkippedFile("b", "no such file")])
    assert list_errors(build_report(example)) == []
    assert list_errors(build_report(analysis([]))) == []
    joined = read_captures(
        [str(CAPTURES / f"{name}.pcap") for name in ("psk-classic", "mobike")], ReadOptions(join=True)
    )
    assert list_errors(build_report(joined)) == []


def test_a_document_with_an_unknown_or_a_missing_key_does_not_pass():
    document = build_report(analysis([1]))
    document["handshakes"][0]["odd"] = 1
    del document["handshakes"][0]["outcome"]
    assert len(list_errors(document)) == 2


def test_comparisons_predictions_and_replays():
    assert list_errors(build_comparison(comparison_examples.comparison())) == []
    predictions = [prediction_examples.failed(), prediction_examples.bursts(), prediction_examples.repeated()]
    for made in (prediction_examples.sweep(), predictions):
        assert list_errors(build_predictions(made)) == []
    for name in ("base", "many", "mutated", "reenact", "verbatim"):
        assert list_errors(build_replay(getattr(replay_examples, name)())) == []
