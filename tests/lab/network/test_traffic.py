import gzip
import re

import pytest

from ikeanalyze.lab import machine
from ikeanalyze.lab.network.traffic import TrafficPlan, parse_traffic_step
from ikeanalyze.lab.run.case_run import run_case
from ikeanalyze.lab.scenario.expansion import LabScenarioError, expand_cases
from tests.lab.agreement import check
from tests.lab.test_recording import tshark


def test_a_step_names_what_differs_from_the_defaults():
    assert parse_traffic_step("traffic") == TrafficPlan(100, 64, 100, "both")
    plan = parse_traffic_step("traffic:count=1000,size=1400,rate=200,direction=up")
    assert plan == TrafficPlan(1000, 1400, 200, "up")
    assert plan.seconds == 5


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("traffic:size=27", "size must be an integer from 28 to 9,000"),
        ("traffic:count=x", "count must be an integer from 1 to 1,000,000"),
        ("traffic:speed=1", "unknown key speed; allowed are count, size, rate, direction"),
        ("traffic:direction=left", "direction must be one of up, down, both"),
    ],
)
def test_invalid_values_are_rejected_with_what_is_allowed(step, problem):
    with pytest.raises(LabScenarioError, match=f"then: {re.escape(step)}: {problem}$"):
        expand_cases({"then": [step]}, "x", "x")


def test_traffic_that_takes_longer_than_a_step_may_is_rejected():
    with pytest.raises(LabScenarioError, match="takes 100 s, and timeout_s is 60"):
        expand_cases({"then": ["traffic:count=1000,rate=10"]}, "x", "x")


def run(tmp_path, **data) -> dict:
    (case,) = expand_cases(data, "x", "traffic")
    return check(run_case(case, tmp_path))


@pytest.mark.lab
def test_datagrams_of_the_given_size_and_number_go_through_the_tunnel(lab, tmp_path):
    """By tshark's count of ESP packets; AES-CBC-256 with SHA-256 takes 44 bytes of IP to 116 in ESP over UDP."""
    steps = ["traffic:count=40,size=44,rate=400", "traffic:count=25,size=1000,rate=400,direction=down"]
    manifest = run(tmp_path, then=steps)
    first, second = manifest["handshakes"][0]["steps"]
    assert first["counts"] == {"up": {"sent": 40, "received": 40}, "down": {"sent": 40, "received": 40}}
    assert second["counts"] == {"down": {"sent": 25, "received": 25}}
    fields = ("-T", "fields", "-e", "ip.src", "-e", "ip.len")
    sizes = [line.split() for line in tshark(tmp_path / "traffic.pcapng", "-Y", "esp", *fields)]
    # 20 IP, 8 UDP, 8 SPI and sequence number, 16 IV, 44 + 2 padded to 48, 16 ICV
    assert sizes.count(["192.0.2.1", "116"]) == 40
    assert sizes.count(["192.0.2.2", "116"]) == 40
    assert sizes.count(["192.0.2.2", "1076"]) == 25  # 1,000 + 2 padded to 1,008
    assert len(sizes) == 105


@pytest.mark.lab
def test_lost_datagrams_are_counted(lab, tmp_path):
    # IKE_SA_INIT, IKE_AUTH: two frames before those of the traffic
    link = {"loss_down_percent": 20, "seed": 4}
    step = "traffic:count=200,rate=2000,direction=down"
    (step_result,) = run(tmp_path, then=[step], link=link)["handshakes"][0]["steps"]
    assert step_result["done"]
    packets = step_result["counts"]["down"]
    assert packets["sent"] == 200
    assert 130 < packets["received"] < 190


@pytest.mark.lab
def test_a_packet_for_a_trap_policy_sets_off_the_handshake(lab, tmp_path):
    """charon logs the packet before the IKE SA; strongSwan 6 does so without ESP in the kernel too."""
    manifest = run(
        tmp_path,
        iterations=3,
        initiator={"start": "trap", "stack": "strongswan-6"},
        link={"rtt_ms": 100},
        then=["ping"],
        capture="both",
    )
    for handshake in manifest["handshakes"]:
        assert (handshake["established"], handshake["child"], handshake["why"]) == (True, True, None)
        assert handshake["ms"] >= 200  # two exchanges
        assert handshake["steps"][0]["done"]
    log = gzip.decompress((tmp_path / manifest["files"]["logs"]["initiator"]).read_bytes()).decode()
    assert log.count("creating acquire job for policy") == 3
    assert "vici initiate" not in log


@pytest.mark.lab
def test_a_refused_handshake_of_a_trap_policy_ends_without_waiting_for_the_timeout(lab, tmp_path):
    initiator = {"start": "trap", "stack": "strongswan-6", "wrong_secret": True}
    (handshake,) = run(tmp_path, initiator=initiator, timeout_s=30)["handshakes"]
    assert (handshake["established"], handshake["why"]) == (False, "AUTHENTICATION_FAILED")
    assert handshake["ms"] < 20_000


@pytest.mark.lab
def test_a_stack_that_notices_no_packet_says_so(lab, tmp_path):
    """strongSwan 5.9.8's own ESP drops a packet without an SA and tells charon nothing."""
    if machine.has_kernel_esp():
        pytest.skip("with ESP in the kernel, 5.9 has trap policies too")
    initiator = {"start": "trap", "stack": "strongswan-5.9"}
    (handshake,) = run(tmp_path, initiator=initiator)["handshakes"]
    assert (handshake["established"], handshake["why"]) == (False, "no IKE SA after the packet")
