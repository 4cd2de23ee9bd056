"""Metrics for Prometheus, as its own client library reads them."""

import socket
from urllib.request import urlopen

import pytest

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.capture.reader import open_capture
from ikeanalyze.live.engine import LiveEngine
from ikeanalyze.live.rules import EndingRules
from tests.live.live_records import read_report
from tests.paths import CAPTURES

pytest.importorskip("prometheus_client")

from prometheus_client.parser import text_string_to_metric_families

from ikeanalyze.live.metrics import LiveMetrics, MetricsError

CAPTURE = CAPTURES / "loss20-classic.pcap"


@pytest.fixture
def metrics():
    metrics = LiveMetrics(0)
    yield metrics
    metrics.close()


def read(metrics: LiveMetrics) -> dict:
    """Name and labels of each sample with its value."""
    text = urlopen(metrics.address).read().decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_add_up_to_a_report(metrics):
    report = read_report(CAPTURE)
    with open_capture(CAPTURE) as reader:
        engine = LiveEngine("x", reader.interfaces, metrics.add, ReadOptions(), EndingRules())
        metrics.watch(lambda: engine.counts)
        for batch in reader.iterate_batches():
            engine.add(batch)
        engine.finish()
    samples = read(metrics)
    links = [record["links"][0] for record in report]
    assert samples["ikeanalyze_handshakes_total", "completed", "IKEv2"] == len(report) == 25
    assert samples["ikeanalyze_setup_seconds_count",] == 25
    assert samples["ikeanalyze_setup_seconds_sum",] == pytest.approx(sum(r["setup_ms"] for r in report) / 1000)
    for name in ("messages", "bytes"):
        total = sum(link[way][name] for link in links for way in ("a_to_b", "b_to_a"))
        assert samples[f"ikeanalyze_{name}_total",] == total
    again = sum(record["retransmissions"]["messages"] for record in report)
    assert samples["ikeanalyze_retransmitted_messages_total",] == again > 0
    assert samples["ikeanalyze_packets_total", "ike"] == 244
    assert samples["ikeanalyze_open_ike_sas",] == samples["ikeanalyze_kept_frames",] == 0


def test_only_this_machine_can_read_them(metrics):
    port = int(metrics.address.split(":")[2].split("/")[0])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=5)


def test_a_port_that_is_in_use_is_an_error(metrics):
    port = int(metrics.address.split(":")[2].split("/")[0])
    with pytest.raises(MetricsError, match="Address already in use"):
        LiveMetrics(port)
