import json
from pathlib import Path

import pytest

from ikeanalyze.lab import machine
from ikeanalyze.lab.daemons import libreswan
from ikeanalyze.lab.network.namespaces import Netns
from ikeanalyze.lab.network.topology import LabNetwork
from ikeanalyze.lab.run.case_run import run_case
from ikeanalyze.lab.scenario.expansion import expand_cases
from tests.lab.agreement import check

HOSTS = [Netns(name, 1, Path("/nowhere")) for name in ("initiator", "responder", "path")]
NET = LabNetwork(*HOSTS, None, None, "192.0.2.1", "192.0.2.2", None, None)


def settings(role: str, **data) -> dict[str, str]:
    case = expand_cases({"initiator": {"stack": "libreswan"}} | data, "x", "x")[0]
    text = libreswan.build_ipsec_conf(role, case, NET)
    return dict(line.strip().split("=", 1) for line in text.splitlines() if "=" in line)


def test_left_is_the_side_itself():
    result = settings("responder")
    assert (result["left"], result["right"]) == ("192.0.2.2", "192.0.2.1")
    assert (result["leftid"], result["rightid"]) == ("@responder.lab", "@initiator.lab")
    assert (result["leftsubnet"], result["rightsubnet"]) == ("10.2.0.1/32", "10.1.0.1/32")
    assert "leftcert" not in result


def test_what_a_scenario_asks_for():
    result = settings(
        "initiator",
        ike={
            "proposals": "aes128gcm16-prfsha256-x25519",
            "fragment_size": 0,
            "retransmit_timeout_s": 0.25,
            "retransmit_tries": 3,
        },
        responder={"auth": "ecdsa"},
    )
    assert result["ike"] == "aes_gcm_16_128-sha2_256-dh31"
    assert result["fragmentation"] == "no"
    # 0.25, 0.5, 1 and 2 s: the wait for the answer to the last of three retransmissions is the fourth
    assert (result["retransmit-interval"], result["retransmit-timeout"]) == ("250", "4s")
    assert (result["leftauth"], result["rightauth"]) == ("secret", "ecdsa")


@pytest.mark.lab
@pytest.mark.parametrize(
    ("initiator", "responder"),
    [("libreswan", "strongswan"), ("libreswan", "libreswan"), ("strongswan", "libreswan")],
)
def test_ike_with_it_agrees_with_both_logs(lab, tmp_path, initiator, responder):
    data = {"initiator": {"stack": initiator}, "responder": {"stack": responder}, "timeout_s": 5}
    (case,) = expand_cases(data, "x", "x")
    manifest = check(run_case(case, tmp_path))
    (handshake,) = manifest["handshakes"]
    assert manifest["expected"]["responder"]["established"] == 1
    # it has no ESP of its own
    assert handshake["child"] == machine.has_kernel_esp()
    if initiator == "libreswan":
        assert handshake["established"]
        assert handshake["ms"] < 1000
        assert handshake["child"] or "no CHILD_SA" in handshake["why"]


@pytest.mark.lab
def test_it_does_not_start_with_what_it_does_not_have(lab, tmp_path, monkeypatch):
    real = libreswan.build_ipsec_conf
    monkeypatch.setattr(libreswan, "build_ipsec_conf", lambda *stdin: real(*stdin).replace("dh19", "dh99"))
    (case,) = expand_cases({"responder": {"stack": "libreswan"}}, "x", "x")
    with pytest.raises(libreswan.LabError, match=r"libreswan \S+ did not start on the responder: .*dh99"):
        run_case(case, tmp_path)


@pytest.mark.lab
def test_without_debugging_the_log_has_outcomes_but_no_messages(lab, tmp_path):
    data = {
        "initiator": {"stack": "libreswan"},
        "responder": {"stack": "libreswan"},
        "timeout_s": 5,
        "measure": "costs",
    }
    (case,) = expand_cases(data, "x", "x")
    manifest = json.loads(run_case(case, tmp_path).read_text())
    assert manifest["handshakes"][0]["established"]
    assert manifest["expected"] == {"initiator": None, "responder": None}
    assert manifest["files"]["keys"] is None
