"""The manifest next to a recording of the lab: what is read from it, and what is refused."""

import json

import pytest

from ikeanalyze.io.lab_manifest import read_lab_manifest
from tests.paths import CAPTURES


def write(folder, scenario, name="run.pcapng"):
    document = {"schema": "ikeanalyze.lab/1", "name": "x", "files": {"capture": name}, "scenario": scenario}
    (folder / "run.manifest.json").write_text(json.dumps(document))
    return read_lab_manifest(str(folder / "run.pcapng"))


def test_the_scenario_of_a_recording():
    manifest = read_lab_manifest(str(CAPTURES / "lab" / "satellite.pcapng"))
    assert (manifest.name, manifest.rtt_ns, manifest.timer_ns) == ("satellite", 600_000_000, 4_000_000_000)


@pytest.mark.parametrize("value", [-1, 1e300, float("nan"), float("inf"), True, "600", None, [600]])
def test_invalid_times_are_unknown(tmp_path, value):
    manifest = write(tmp_path, {"link.rtt_ms": value, "ike.retransmit_timeout_s": 0.5})
    assert (manifest.rtt_ns, manifest.timer_ns) == (None, 500_000_000)


def test_the_manifest_of_another_capture_is_not_read(tmp_path):
    assert write(tmp_path, {"link.rtt_ms": 1}, "other.pcapng") is None
    assert read_lab_manifest("-") is None


@pytest.mark.parametrize(
    ("delays", "rtt_ms"),
    [
        ({"link.rtt_ms": 100, "link.delay_up_ms": None, "link.delay_down_ms": None}, 100),
        ({"link.rtt_ms": 100, "link.delay_up_ms": 80, "link.delay_down_ms": None}, 130),
        ({"link.rtt_ms": 0, "link.delay_up_ms": 80, "link.delay_down_ms": 5.5}, 85.5),
    ],
)
def test_the_round_trip_time_has_the_delays_of_both_directions(tmp_path, delays, rtt_ms):
    assert write(tmp_path, delays).rtt_ns == rtt_ms * 1_000_000


def test_warm_ups_are_read(tmp_path):
    (tmp_path / "run.pcapng").touch()
    document = {
        "schema": "ikeanalyze.lab/1",
        "name": "run",
        "scenario": {},
        "files": {"capture": "run.pcapng"},
        "handshakes": [
            {"spi_i": "01" * 8, "spi_r": "02" * 8, "warm_up": True},
            {"spi_i": "03" * 8, "spi_r": "04" * 8, "warm_up": False},
            {"spi_i": "05" * 8, "spi_r": "06" * 8},
            {"spi_i": None, "spi_r": None, "warm_up": True},
            "no object",
        ],
    }
    (tmp_path / "run.manifest.json").write_text(json.dumps(document))
    manifest = read_lab_manifest(str(tmp_path / "run.pcapng"))
    assert manifest.warm_ups == {("01" * 8, "02" * 8)}
    del document["handshakes"]
    (tmp_path / "run.manifest.json").write_text(json.dumps(document))
    assert read_lab_manifest(str(tmp_path / "run.pcapng")).warm_ups == frozenset()


def test_the_manifest_names_the_side_of_each_capture(tmp_path):
    files = {"capture": "run.pcapng", "captures": {"responder": "run.pcapng", "initiator": "run.initiator.pcapng"}}
    document = {"schema": "ikeanalyze.lab/1", "name": "x", "files": files, "scenario": {"link.rtt_ms": 1}}
    (tmp_path / "run.manifest.json").write_text(json.dumps(document))
    hosts = {name: read_lab_manifest(str(tmp_path / name)).capture_host for name in files["captures"].values()}
    assert hosts == {"run.pcapng": "responder", "run.initiator.pcapng": "initiator"}
    del files["captures"]  # as the lab wrote it before it captured at the initiator
    (tmp_path / "run.manifest.json").write_text(json.dumps(document))
    assert read_lab_manifest(str(tmp_path / "run.pcapng")).capture_host == "responder"
    assert read_lab_manifest(str(tmp_path / "run.initiator.pcapng")) is None


@pytest.mark.parametrize("captures", [5, [], "run.pcapng", {"initiator": 5}])
def test_invalid_captures_are_none_of_the_initiator(tmp_path, captures):
    files = {"capture": "run.pcapng", "captures": captures}
    document = {"schema": "ikeanalyze.lab/1", "name": "x", "files": files, "scenario": {}}
    (tmp_path / "run.manifest.json").write_text(json.dumps(document))
    manifest = read_lab_manifest(str(tmp_path / "run.pcapng"))
    assert manifest is None or manifest.capture_host == "responder"
