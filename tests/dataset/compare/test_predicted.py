"""Predictions over measured means: which group a prediction belongs to, and its numbers."""

import json

import pytest
from scipy import stats

from ikeanalyze.dataset.compare import CompareError
from ikeanalyze.dataset.compare.columns import RowCondition
from ikeanalyze.dataset.compare.compare import ComparisonRequest, compare_groups
from tests.dataset.grouped import tables

MEAN, DEVIATION, RUNS = 4000.0, 600.0, 2500


def prediction(loss=0.05, rtt_ms=0.0, capture="runs/a.pcap", link=(), **more):
    """One prediction, with the keys of the documentation that are used."""
    values = {"mean": MEAN, "mean_error": 12.0, "deviation": DEVIATION, "median": 3900.0, "p95": 5000.0, "p99": 6000.0}
    return {
        "capture": capture,
        "handshake": 1,
        "link": {"rtt_ms": rtt_ms, "loss": loss, "mtu": None, "burst": None, **dict(link)},
        "transport": "udp",
        "policy": {"name": "strongswan", "waits_s": [4.0, 7.2], "jitter": 0.0},
        "fragment_size": None,
        "runs": RUNS,
        **dict.fromkeys(("setup_ms", "bytes", "messages", "frames"), values),
        **more,
    }


def write(path, *predictions, schema="ikeanalyze.prediction/1"):
    path.write_text(json.dumps({"schema": schema, "handshakes": [], "predictions": predictions}))
    return str(path)


def measured(config="pq", loss=5.0, sizes=(3000, 5000), **more):
    return [
        {"config": config, "loss": loss, "initiator_bytes": size - 1, "responder_bytes": 1, **more} for size in sizes
    ]


def compare(rows, files, *by, labels=("config", "loss"), metrics=("bytes",), **more):
    request = ComparisonRequest(list(by), metrics=list(metrics), predicted=files, resamples=200, **more)
    return compare_groups(tables(rows, labels), request)


def test_the_bounds_are_those_of_a_mean_of_as_many_handshakes(tmp_path):
    file = write(tmp_path / "p.json", prediction())
    result = compare(measured(sizes=(3000, 5000, 4600, 4200)), [file], "loss", confidence=0.9)
    (summary,) = result.metrics[0].groups
    (mean,) = summary.predicted
    low, high = stats.norm.interval(0.9, loc=MEAN, scale=(DEVIATION**2 / 4 + DEVIATION**2 / RUNS) ** 0.5)
    assert (mean.mean.value, mean.mean.low, mean.mean.high) == pytest.approx((MEAN, low, high))
    assert (mean.deviation, mean.median, mean.p95, mean.p99) == (600, 3900, 5000, 6000)
    assert (mean.file, mean.capture, mean.handshake, mean.runs) == (file, "runs/a.pcap", 1, RUNS)
    assert (mean.rtt_ms, mean.loss, mean.transport, mean.policy) == (0, 0.05, "udp", "strongswan")
    assert mean.within
    assert mean.ratio.value == 4200 / 4000
    assert (mean.ratio.low, mean.ratio.high) == (summary.mean.low / MEAN, summary.mean.high / MEAN)
    assert result.remarks == ()


def test_a_mean_that_is_not_as_predicted(tmp_path):
    file = write(tmp_path / "p.json", prediction())
    (summary,) = compare(measured(sizes=(9000, 9010)), [file], "loss").metrics[0].groups
    assert not summary.predicted[0].within


def test_nothing_measured_has_no_ratio(tmp_path):
    file = write(tmp_path / "p.json", prediction())
    (summary,) = compare(measured(outcome="failed"), [file], "loss").metrics[0].groups
    (mean,) = summary.predicted
    assert (mean.mean.value, mean.mean.low, mean.ratio, mean.within) == (MEAN, None, None, None)


@pytest.mark.parametrize("name", ["loss", "loss_percent", "link_loss_percent"])
def test_loss_is_in_per_cent(name, tmp_path):
    # 0.07 * 100 is 7.000000000000001
    files = [write(tmp_path / f"{loss}.json", prediction(loss)) for loss in (0.0, 0.07, 0.2)]
    rows = [{name: loss, "initiator_bytes": 1, "responder_bytes": 1} for loss in (0.0, 7.0)]
    result = compare(rows, files, name, labels=(name,))
    assert [[mean.loss for mean in summary.predicted] for summary in result.metrics[0].groups] == [[0.0], [0.07]]
    assert result.remarks == (f"1 prediction belongs to no group: runs/a.pcap ({name}=20)",)


@pytest.mark.parametrize(
    ("labels", "belongs"),
    [
        ({}, True),
        ({"link_rtt_ms": 300.0}, True),
        ({"link_rtt_ms": 0.0}, False),
        ({"link_mtu": 1500}, True),  # predicted for that of the capture
        ({"link_rate_kbps": 0.0}, False),
        ({"link_rate_kbps": 64.0}, True),
        ({"link_drop_ip_fragments": True}, False),
        ({"link_jitter_ms": None}, True),
        ({"ike_fragment_size": 1280}, False),
        ({"ike_fragment_size": 576}, True),
        ({"aaa_link_rtt_ms": 30.0}, True),  # does not describe this link
    ],
)
def test_all_labels_of_the_link_must_be_those_of_the_prediction(labels, belongs, tmp_path):
    """Else a figure would lay a prediction of another link over the measurements."""
    link = {"rate_up": 64e3, "rate_down": 64e3}
    file = write(tmp_path / "p.json", prediction(rtt_ms=300.0, link=link, fragment_size=576))
    result = compare(measured(**labels), [file], "loss", labels=("loss", *labels))
    assert bool(result.metrics[0].groups[0].predicted) == belongs
    assert bool(result.remarks) != belongs


def test_a_group_with_several_links_has_no_prediction(tmp_path):
    file = write(tmp_path / "p.json", prediction(rtt_ms=300.0))
    rows = [row for rtt in (0.0, 300.0) for row in measured(rtt_ms=rtt)]
    assert compare(rows, [file], "loss", labels=("loss", "rtt_ms")).metrics[0].groups[0].predicted == ()
    by_rtt = compare(rows, [file], "loss", "rtt_ms", labels=("loss", "rtt_ms")).metrics[0].groups
    assert [len(group.predicted) for group in by_rtt] == [0, 1]


def test_other_columns_have_the_values_of_the_predicted_capture(tmp_path):
    """A configuration is predicted from one of its captures, here one that the conditions leave out."""
    rows = [
        row
        for config in ("classic", "pq")
        for loss in (0.0, 5.0)
        for row in measured(config, loss, capture=f"/data/runs/{config}-{loss:g}.pcap")
    ]
    file = write(
        tmp_path / "p.json",
        prediction(capture="runs/pq-0.pcap"),
        prediction(capture="runs/x-0.pcap"),
    )
    result = compare(rows, [file], "config", "loss", where=[RowCondition("loss", "5")])
    classic, pq = result.metrics[0].groups
    assert (classic.predicted, [mean.capture for mean in pq.predicted]) == ((), ["runs/pq-0.pcap"])
    assert result.remarks == ("1 prediction belongs to no group: runs/x-0.pcap (loss=5)",)


def test_many_predictions_without_a_group_are_one_remark(tmp_path):
    file = write(tmp_path / "p.json", *(prediction(loss / 100) for loss in range(10, 18)))
    (remark,) = compare(measured(), [file], "loss").remarks
    assert remark.startswith("8 predictions belong to no group: runs/a.pcap (loss=10); runs/a.pcap (loss=11); ")
    assert remark.endswith("(loss=14); and 3 more")


def test_set_up_times_are_predicted_at_the_initiator(tmp_path):
    """With a round-trip time, a capture at the responder shows less."""
    rows = [{"loss": 5.0, "setup_ns": 10**9, "initiator_setup_ns": 2 * 10**9}]
    metrics = ["setup_ms", "initiator_setup_ms"]
    files = [write(tmp_path / "0.json", prediction()), write(tmp_path / "600.json", prediction(rtt_ms=600.0))]
    for file, at_capture in zip(files, (1, 0), strict=True):
        result = compare(rows, [file], "loss", labels=("loss",), metrics=metrics)
        assert [len(metric.groups[0].predicted) for metric in result.metrics] == [at_capture, 1]
        assert len(result.remarks) == 1 - at_capture


def test_all_simulated_handshakes_failed(tmp_path):
    file = write(tmp_path / "p.json", prediction(bytes=None))
    assert compare(measured(), [file], "loss").metrics[0].groups[0].predicted == ()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "not a prediction (Input data was truncated)"),
        ("[]", "not a prediction (Expected `object`, got `array`)"),
        (
            '{"schema": "ikeanalyze.report/1", "predictions": []}',
            "not a prediction (schema is not ikeanalyze.prediction/1)",
        ),
        ('{"schema": "ikeanalyze.prediction/1"}', "not a prediction (Object missing required field `predictions`)"),
        ("\udcff", "not a prediction ("),
        ("[" * 100_000, "not a prediction ("),
        (json.dumps({"schema": "ikeanalyze.prediction/1", "predictions": [prediction(loss=-1)]}), "not a prediction ("),
    ],
)
def test_files_that_are_no_predictions(content, problem, tmp_path):
    path = tmp_path / "p.json"
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(CompareError) as raised:
        compare(measured(), [str(path)], "loss")
    assert str(raised.value).startswith(f"{path}: {problem}")
    assert raised.value.argument is None


def test_a_missing_file(tmp_path):
    with pytest.raises(CompareError, match="No such file or directory"):
        compare(measured(), [str(tmp_path / "p.json")], "loss")


def test_other_outcomes_are_not_predicted(tmp_path):
    file = write(tmp_path / "p.json", prediction())
    with pytest.raises(CompareError, match="predictions are of handshakes that are established or completed") as raised:
        compare(measured(), [file], "loss", outcomes=["failed"])
    assert raised.value.argument == "predicted"
