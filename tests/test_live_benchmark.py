"""The benchmark of live captures, with a few handshakes."""

import os
import shutil

import dpkt
import pytest

from benchmarks.live import measure

pytestmark = [pytest.mark.lab, pytest.mark.alone]


def test_all_that_dumpcap_wrote_is_reported(tmp_path, monkeypatch):
    if os.geteuid() or shutil.which("dumpcap") is None:
        pytest.skip("needs root and dumpcap")
    pytest.importorskip("prometheus_client")
    monkeypatch.setattr(measure, "SETTLE", 2)
    source = tmp_path / "sent.pcap"
    measure.make_input(150, source)
    result = measure.run(source, tmp_path, 2)
    expected = measure.report(result.capture)
    with source.open("rb") as file:
        assert result.sent == len(list(dpkt.pcap.Reader(file))) == measure.count_packets(result.capture)
    assert len(result.records) == len(expected) == 150
    common, equal, _ = measure.find_differences(result.records, expected)
    assert common == 150
    assert equal >= 140  # of the others, messages came after they had settled
    outcomes = [record["outcome"] for record in result.records]
    assert outcomes.count("completed") == 148
    assert 'ikeanalyze_handshakes_total{outcome="completed",protocol="IKEv2"} 148.0' in result.metrics
    assert "records that are equal" in measure.describe(150, result, expected)
