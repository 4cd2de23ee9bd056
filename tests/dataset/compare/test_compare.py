import json
from statistics import mean as mean_of
from statistics import median as median_of

import pytest

from ikeanalyze.dataset.compare import CompareError
from ikeanalyze.dataset.compare.columns import RowCondition
from ikeanalyze.dataset.compare.compare import ComparisonRequest, compare_groups
from tests.dataset.grouped import LAB, manifest, recorded, retransmissions, tables, times

ETHERNET_TO_UDP, MARKER = 42, 4


def bytes_of_log(name, others):
    """Bytes on the wire per handshake of all IKE messages sent by the daemons' logs, except those of size `others`."""
    truth = json.loads((LAB.parent / f"{name}.truth.json").read_text())
    sent = [event for event in truth["ini"] + truth["res"] if event[0] == "send" and event[5] not in others]
    # over port 4500 goes a marker
    on_wire = sum(event[5] + ETHERNET_TO_UDP + (0 if 500 in (event[2], event[4]) else MARKER) for event in sent)
    return on_wire / len(truth["results"]), len(sent) / len(truth["results"])


def test_recorded_with_and_without_loss():
    # what follows the set-up: INFORMATIONAL of these sizes
    clean, least = bytes_of_log("psk-classic", {80})
    lossy, sent = bytes_of_log("loss20-classic", {57, 65})
    assert least == 4
    data = recorded(loss20=LAB.parent / "loss20-classic.pcap", loss0=LAB.parent / "psk-classic.pcap")
    result = compare_groups(data, ComparisonRequest(["loss"], metrics=["bytes", "retransmissions", "round_trips"]))
    assert [(group.values, group.handshakes, group.captures) for group in result.groups] == [
        ((0.0,), 1, 1),
        ((20.0,), 25, 1),
    ]
    assert result.baseline == 0
    volume, again, trips = (metric.groups for metric in result.metrics)
    assert (volume[0].mean.value, volume[1].mean.value) == pytest.approx((clean, lossy))
    assert volume[1].against.ratio.value == pytest.approx(lossy / clean)
    assert (again[0].mean.value, again[1].mean.value) == pytest.approx((0, sent - least))
    assert again[1].against.ratio is None  # to nothing
    assert trips[1].least == 2
    assert [metric.unit for metric in result.metrics] == ["bytes", None, None]


def test_recorded_at_two_rates_of_loss():
    data = recorded(**{f"loss{loss}": LAB / f"loss_loss-percent-{loss}.pcapng" for loss in (20, 5)})
    result = compare_groups(data, ComparisonRequest(["loss"], metrics=["setup_ms", "retransmissions"]))
    assert [group.values for group in result.groups] == [(5.0,), (20.0,)]
    times, again = (metric.groups for metric in result.metrics)
    for i, loss in enumerate((5, 20)):
        # the initiator's daemon began a little earlier and said so a little later
        took = [handshake["ms"] for handshake in manifest(loss)["handshakes"]]
        assert times[i].mean.value == pytest.approx(mean_of(took), abs=15)
        assert times[i].median.value == pytest.approx(median_of(took), abs=15)
        assert again[i].mean.value == pytest.approx(retransmissions(loss))
    assert again[1].against.ratio.value == pytest.approx(retransmissions(20) / retransmissions(5))


def test_results_of_a_paper_are_reproduced():
    # De Zuane and El Mechri, listings 1 and 2: RSA 6 packets, 1365 + 4184 bytes, 83.9 ms; ECDSA 4, 1365 + 1772, 58.7 ms
    rows = [
        {"config": "rsa", "setup_ns": 83_900_000, "initiator_bytes": 1365, "responder_bytes": 4184},
        {"config": "ecdsa", "setup_ns": 58_700_000, "initiator_bytes": 1365, "responder_bytes": 1772},
    ]
    result = compare_groups(tables(rows), ComparisonRequest(["config"], metrics=["setup_ms", "bytes"]))
    ratios = [metric.groups[1].against.ratio for metric in result.metrics]
    assert [group.values for group in result.groups] == [("ecdsa",), ("rsa",)]
    assert [one.value for one in ratios] == pytest.approx([1.429, 1.769], abs=1e-3)
    assert [(one.low, one.high) for one in ratios] == [(None, None)] * 2  # of one run each
    assert not any(metric.groups[1].against.differs for metric in result.metrics)


def test_a_difference_that_is_more_than_noise():
    rows = times("classic", *range(100, 130)) + times("pq", *range(140, 170))
    (metric,) = compare_groups(tables(rows), ComparisonRequest(["config"], metrics=["setup_ms"])).metrics
    classic, pq = metric.groups
    assert (classic.mean.value, classic.median.value, pq.mean.value) == (114.5, 114.5, 154.5)
    assert (classic.least, classic.greatest) == (100, 129)
    # of 1 to n the standard deviation is that of a uniform distribution
    assert classic.deviation == pytest.approx((30 * 31 / 12) ** 0.5)
    assert classic.against is None
    assert pq.against.ratio.value == pytest.approx(154.5 / 114.5)
    assert 1.3 < pq.against.ratio.low < pq.against.ratio.value < pq.against.ratio.high < 1.4
    assert pq.against.test.u == 900  # all pairs
    assert pq.against.differs
    assert list(pq.sample) == list(range(140, 170))


def test_each_group_is_divided_by_the_baseline():
    rows = times("a", 1, 2) + times("b", 2, 4) + times("c", 3, 6)
    result = compare_groups(tables(rows), ComparisonRequest(["config"], metrics=["setup_ms"], baseline="b"))
    assert [group.baseline for group in result.groups] == [1, None, 1]
    ratios = [one.against and one.against.ratio.value for one in result.metrics[0].groups]
    assert ratios == [0.5, None, 1.5]


def test_the_baseline_agrees_in_the_other_columns():
    rows = [
        {"config": config, "loss": loss, "setup_ns": time}
        for config, loss, time in (
            ("pq", 5.0, 60), ("pq", 20.0, 900), ("classic", 5.0, 20), ("classic", 20.0, 100), ("tcp", 0.0, 1),
        )
    ]  # fmt: skip
    result = compare_groups(
        tables(rows, ("config", "loss")),
        ComparisonRequest(["config", "loss"], metrics=["setup_ms"], baseline="classic"),
    )
    assert [group.values for group in result.groups] == [
        ("classic", 5.0),
        ("classic", 20.0),
        ("pq", 5.0),
        ("pq", 20.0),
        ("tcp", 0.0),
    ]
    assert [group.baseline for group in result.groups] == [None, None, 0, 1, None]
    ratios = [group.against and group.against.ratio.value for group in result.metrics[0].groups]
    assert ratios == [None, None, 3, 9, None]


def test_only_successful_handshakes_are_measured():
    rows = [
        *times("a", 1, 3),
        *times("a", 8, outcome="established"),
        *times("a", 1000, outcome="failed"),
        {"config": "a", "outcome": "failed"},
        {"config": "a", "outcome": "unanswered"},
        {"config": "a", "outcome": "cut"},
        {"config": "a"},
        *times("b", 5),
    ]
    result = compare_groups(tables(rows), ComparisonRequest(["config"], metrics=["setup_ms"]))
    group, one = result.groups[0], result.metrics[0].groups[0]
    assert (group.handshakes, group.failures) == (8, 3)
    assert group.outcomes == {"established": 1, "completed": 3, "failed": 2, "unanswered": 1, "half-open": 0, "cut": 1}
    assert (one.counted, one.mean.value) == (3, 4)
    assert one.left_out == {"failed": 2, "unanswered": 1, "cut": 1, "not known": 1}
    assert one.counted + sum(one.left_out.values()) == group.handshakes
    failed = compare_groups(tables(rows), ComparisonRequest(["config"], metrics=["setup_ms"], outcomes=["failed"]))
    assert failed.metrics[0].groups[0].mean.value == 1000
    assert failed.metrics[0].groups[1].counted == 0
    assert failed.metrics[0].groups[1].mean is None
    assert failed.metrics[0].groups[1].against is None


def test_an_ike_sa_that_replaced_another_is_no_handshake():
    rows = [
        *times("a", 5),
        {"config": "a", "outcome": "established", "reason": "REKEYED", "rekeyed": True, "initiator_bytes": 0},
    ]
    result = compare_groups(tables(rows), ComparisonRequest(["config"]))
    assert (result.groups[0].handshakes, result.rekeyed) == (1, 1)
    with pytest.raises(CompareError, match="no handshake"):
        compare_groups(tables(rows[1:]), ComparisonRequest(["config"]))


def test_several_comparisons_are_corrected():
    rows = [row for name, low in (("a", 1), ("b", 4), ("c", 5)) for row in times(name, *range(low, low + 5))]
    _, b, c = compare_groups(tables(rows), ComparisonRequest(["config"], metrics=["setup_ms"])).metrics[0].groups
    # Benjamini and Yekutieli: of two, the smaller one counts 2 * (1 + 1/2) times, the greater one 1 + 1/2 times
    assert c.against.test.p < b.against.test.p
    assert c.against.p_corrected == pytest.approx(min(3 * c.against.test.p, 1.5 * b.against.test.p))
    assert b.against.p_corrected == pytest.approx(1.5 * b.against.test.p)


def test_where_selects_handshakes_by_column():
    rows = [{"config": c, "loss": loss, "setup_ns": 1} for c in "abc" for loss in (0.0, 5.0, 20.0, None)]
    data = tables(rows, ("config", "loss"))
    result = compare_groups(
        data,
        ComparisonRequest(
            ["config"], where=[RowCondition("loss", "5"), RowCondition("loss", "20.0"), RowCondition("config", "a")]
        ),
    )
    assert [(group.values, group.handshakes) for group in result.groups] == [(("a",), 2)]
    result = compare_groups(data, ComparisonRequest(["loss"], where=[RowCondition("loss", "-")]))
    assert [(group.values, group.handshakes) for group in result.groups] == [((None,), 3)]
    with pytest.raises(CompareError, match="that meets the conditions") as error:
        compare_groups(data, ComparisonRequest(["config"], where=[RowCondition("config", "x")]))
    assert error.value.argument == "where"


@pytest.mark.parametrize(
    ("wrong", "argument", "what"),
    [
        (
            {"by": ["nonsense"]},
            "by",
            "unknown column 'nonsense' (labels config; docs/compare.md lists the columns of each handshake)",
        ),
        ({"by": ["phases"]}, "by", "phases has several values"),
        ({"by": ["setup_ns"]}, "by", "setup_ns would make 1,001 groups"),
        ({"metrics": ["nonsense"]}, "metric", "unknown metric 'nonsense' (docs/compare.md lists the metrics; "),
        ({"metrics": ["handshake"]}, "metric", "unknown metric 'handshake'"),
        ({"metrics": ["setup"]}, "metric", "unknown metric 'setup'; did you mean setup_ms"),
        ({"baseline": "nonsense"}, "baseline", "config is never 'nonsense' (choose from a"),
        ({"where": [RowCondition("nonsense", "1")]}, "where", "unknown column 'nonsense'"),
        ({"where": [RowCondition("setup_ns", "x")]}, "where", "setup_ns is a number, but 'x' is not"),
        ({"outcomes": ["won"]}, "outcome", "unknown outcome 'won' (choose from established, completed, "),
    ],
)
def test_what_cannot_be_compared(wrong, argument, what):
    data = tables(times("a", *range(1001)))
    with pytest.raises(CompareError) as error:
        compare_groups(data, ComparisonRequest(wrong.pop("by", ["config"]), **wrong))
    assert str(error.value).startswith(what)
    assert error.value.argument == argument
    assert "\n" not in str(error.value)


def test_nothing_in_it():
    with pytest.raises(CompareError, match="ds: no handshake") as error:
        compare_groups(tables([], ()), ComparisonRequest(["protocol"]))
    assert error.value.argument is None


def test_what_the_source_lacks_is_passed_on():
    result = compare_groups(tables(times("a", 1), unread=3, complete=False), ComparisonRequest(["config"]))
    assert (result.unread, result.complete) == (3, False)


def test_naming_something_twice_is_no_difference():
    rows = tables(times("a", 1) + times("b", 2))
    twice = compare_groups(rows, ComparisonRequest(["config", "config"], metrics=["setup_ms", "setup_ms"]))
    assert (twice.by, [metric.name for metric in twice.metrics]) == (("config",), ["setup_ms"])


def test_labels_too_large_to_be_added_up():
    """The largest float is 1.8e308: two of 1.7e308 have no mean, and a JSON number is finite."""
    rows = [{"config": config, "load": load} for config in "ab" for load in (1.7e308, 1e99)]
    rows += [{"config": "c", "load": 5e-324}, {"config": "d", "load": 1.0}]
    result = compare_groups(
        tables(rows, ("config", "load")), ComparisonRequest(["config"], metrics=["load"], baseline="c")
    )
    a, b, c, d = result.metrics[0].groups
    assert [(one.counted, one.left_out, one.mean.value) for one in (a, b)] == [(1, {"not known": 1}, 1e99)] * 2
    assert (c.mean.value, d.mean.value) == (5e-324, 1.0)
    assert d.against.ratio is None  # more than a float can say


def test_sums_are_of_the_counted_handshakes():
    rows = [
        {"config": "pq", "initiator_bytes": 1000, "responder_bytes": 300},
        {"config": "pq", "initiator_bytes": 2000, "responder_bytes": 400},
        {"config": "pq", "initiator_bytes": 4000, "responder_bytes": None},
        {"config": "pq", "initiator_bytes": 8000, "responder_bytes": 500, "outcome": "failed"},
    ]
    names = ["initiator_bytes", "initiator_bytes+responder_bytes"]
    initiator, both = compare_groups(tables(rows), ComparisonRequest(["config"], metrics=names)).metrics
    assert (initiator.groups[0].sum, initiator.groups[0].left_out) == (7000, {"failed": 1})
    assert (both.groups[0].sum, both.groups[0].mean.value) == (3700, 1850)
    assert (both.unit, both.groups[0].left_out) == ("bytes", {"failed": 1, "not known": 1})


def test_a_group_without_counted_handshakes_has_no_sum():
    rows = [{"config": "pq", "initiator_bytes": 1, "outcome": "failed"}]
    (metric,) = compare_groups(tables(rows), ComparisonRequest(["config"], metrics=["initiator_bytes"])).metrics
    assert metric.groups[0].sum is None
