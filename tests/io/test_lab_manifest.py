"""The manifest next to a recording of the lab: what is read from it, and what is refused."""

import json

import pytest

from ikeanalyze.io.lab_manifest import describe_unused_manifest, read_lab_manifest
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


@pytest.mark.parametrize(
    ("scenario", "byte_ns"),
    [
        ({"link.rate_kbps": 64}, (125_000, 125_000)),  # 8 bits at 64,000 bit/s take 125 µs
        ({"link.rate_up_kbps": 384, "link.rate_down_kbps": 8000}, (8e6 / 384, 1000)),
        ({"link.rate_kbps": 64, "link.rate_down_kbps": 0}, (125_000, 0)),
        ({"link.rate_kbps": 64, "link.rate_up_kbps": "", "link.rate_down_kbps": None}, (125_000, 125_000)),
        ({"link.rate_kbps": 0}, (0, 0)),
        ({}, (0, 0)),
    ],
)
def test_the_rate_of_the_link(tmp_path, scenario, byte_ns):
    assert write(tmp_path, scenario).byte_ns == pytest.approx(byte_ns)


@pytest.mark.parametrize("value", [-1, 1e-300, 1e300, float("nan"), float("inf"), True, "64", [64]])
def test_invalid_rates_are_unlimited(tmp_path, value):
    manifest = write(tmp_path, {"link.rate_kbps": value, "link.mtu": value})
    assert (manifest.byte_ns, manifest.mtu) == ((0, 0), 1500)


def test_the_manifest_of_another_capture_is_not_read(tmp_path):
    assert write(tmp_path, {"link.rtt_ms": 1}, "other.pcapng") is None
    assert read_lab_manifest("-") is None


@pytest.mark.parametrize("name", ["run.pcapng.gz", "run.pcapng.zst", "run.initiator.pcapng.gz"])
def test_a_capture_that_was_compressed_later_keeps_its_manifest(tmp_path, name):
    files = {"capture": "run.pcapng", "captures": {"initiator": "run.initiator.pcapng"}}
    document = {"schema": "ikeanalyze.lab/1", "name": "x", "files": files, "scenario": {"link.rtt_ms": 3}}
    (tmp_path / "run.manifest.json").write_text(json.dumps(document))
    manifest = read_lab_manifest(str(tmp_path / name))
    assert (manifest.rtt_ns, manifest.capture_host) == (3_000_000, "initiator" if "initiator" in name else "responder")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            '{"schema": "ikeanalyze.lab/1", "files": {"capture": "a.pcapng"}}',
            "it is of a capture with the name a.pcapng",
        ),
        ('{"schema": "ikeanalyze.lab/1", "files": {"capture": "run.pcapng"}}', "it is incomplete"),
        ('{"schema": "ikeanalyze.lab/1"}', "it is incomplete"),
        ('{"schema": "ikeanalyze.lab/1",', "it is not valid JSON"),
        ("[" * 100_000, "it is not valid JSON"),
        ('{"schema": "another/1", "files": {"capture": "a.pcapng"}}', None),
        ("[]", None),
        (None, None),
    ],
)
def test_a_manifest_that_is_not_used_is_described(tmp_path, text, problem):
    """One of another program is none, nor is a file that does not exist."""
    if text is not None:
        (tmp_path / "run.manifest.json").write_text(text)
    path = str(tmp_path / "run.pcapng")
    assert read_lab_manifest(path) is None
    assert describe_unused_manifest(path) == (problem and f"run.manifest.json is not used: {problem}")


def handshakes(folder, *entries, **more):
    document = {"schema": "ikeanalyze.lab/1", "name": "x", "files": {"capture": "run.pcapng"}, "scenario": {}}
    (folder / "run.manifest.json").write_text(json.dumps({**document, "handshakes": list(entries), **more}))
    return read_lab_manifest(str(folder / "run.pcapng"))


SPIS = {"spi_i": "00000000000000a1", "spi_r": "ffffffffffffffff"}


def test_the_handshakes_of_a_recording():
    manifest = read_lab_manifest(str(CAPTURES / "lab" / "eap-aaa-loss.pcapng"))
    recorded = json.loads((CAPTURES / "lab" / "eap-aaa-loss.manifest.json").read_text())["handshakes"]
    assert [(f"{item.spi_i:016x}", f"{item.spi_r:016x}", item.clock_ms) for item in manifest.handshakes] == [
        (item["spi_i"], item["spi_r"], item["ms"]) for item in recorded
    ]
    assert manifest.handshakes[0].processor_ms == {
        "initiator": 15.686317, "responder": 13.761805, "aaa": 2.849121,
    }  # fmt: skip
    assert (manifest.measure, manifest.jobs) == ("keys", None)


def test_what_later_manifests_add(tmp_path):
    entry = {**SPIS, "warm_up": True, "attempts": 3}
    manifest = handshakes(tmp_path, entry, scenario={"measure": "costs"}, machine={"jobs": 4})
    (handshake,) = manifest.handshakes
    assert (handshake.warm_up, handshake.attempts, manifest.measure, manifest.jobs) == (True, 3, "costs", 4)


def test_a_handshake_without_ike_sa_has_no_spis(tmp_path):
    invalid = [{**SPIS, "spi_i": value} for value in (None, "", "a1", 161, "0" * 16, "0x000000000000a1")]
    manifest = handshakes(tmp_path, *invalid, SPIS, "text", None)
    assert [(item.number, item.spi_i, item.spi_r) for item in manifest.handshakes] == [(7, 0xA1, 2**64 - 1)]
    assert handshakes(tmp_path, handshakes={"a": 1}).handshakes == ()


@pytest.mark.parametrize("value", [-1, 1e300, float("nan"), float("inf"), 2**63, True, "6", None, [6], {}])
def test_invalid_figures_are_unknown(tmp_path, value):
    costs = {"initiator": {"processor_ms": value, "rss_after_bytes": value}, "responder": value}
    manifest = handshakes(
        tmp_path,
        {**SPIS, "spi_r": value, "ms": value, "attempts": value, "warm_up": 1, "costs": costs},
        machine=value,
        scenario={"measure": value},
    )
    (handshake,) = manifest.handshakes
    assert (handshake.spi_r, handshake.clock_ms, handshake.attempts, handshake.warm_up) == (None, None, None, False)
    assert (handshake.processor_ms, handshake.rss_bytes) == ({}, {})
    assert (manifest.measure, manifest.jobs) == (None, None)


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
