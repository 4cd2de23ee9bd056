import gzip
import json
import time

import pytest

from ikeanalyze.lab import machine
from ikeanalyze.lab.daemons import peer_config, registry, strongswan
from ikeanalyze.lab.daemons.peer_config import StrongswanConfig
from ikeanalyze.lab.daemons.place import NetnsPlace
from ikeanalyze.lab.daemons.strongswan import format_settings, merge_settings
from ikeanalyze.lab.network import emulation, topology
from ikeanalyze.lab.network.namespaces import NetnsSandbox
from ikeanalyze.lab.run.case_run import run_case
from ikeanalyze.lab.scenario.expansion import expand_cases
from ikeanalyze.lab.scenario.links import LinkConditions
from tests.lab.agreement import check


def test_settings_in_the_form_of_strongswan_conf():
    settings = merge_settings({"a": "1", "plugins": {"vici": {"socket": "x"}}}, {"plugins": {"eap-radius": {"b": "2"}}})
    expected = "a = 1\nplugins {\n  vici {\n    socket = x\n  }\n  eap-radius {\n    b = 2\n  }\n}\n"
    assert format_settings(settings) == expected


def test_the_repr_has_no_secret():
    assert "hush" not in repr(StrongswanConfig("initiator", {}, (("load_shared", {"data": "hush"}),)))


def wait_for(charon, count: int) -> list:
    deadline = time.monotonic() + 5
    while len(sas := charon.list_ike_sas()) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return sas


@pytest.mark.lab
@pytest.mark.parametrize(("first_wait", "tries"), [(10, 1), (0.1, 1)])  # the command ends first, or charon gives up
def test_an_initiator_whom_nobody_answers(lab, first_wait, tries):
    data = {"timeout_s": 1, "ike": {"retransmit_timeout_s": first_wait, "retransmit_tries": tries}}
    (case,) = expand_cases(data, "x", "x")
    with NetnsSandbox() as sandbox:
        network = topology.build_network(sandbox, case)
        emulation.start_emulator(sandbox, network.path, LinkConditions(), netem=False, drops_at_receiver=True)
        charon = strongswan.start_strongswan(
            NetnsPlace(sandbox, network.initiator),
            registry.find_installed("initiator", case),
            peer_config.build_side_config("initiator", case, network, peer_config.make_credentials(case)),
            kernel_esp=machine.has_kernel_esp(),
            timeout=case.settings.timeout_s,
        )
        attempt = charon.initiate()
        assert (attempt.done, attempt.why) == (False, "no answer")
        if first_wait < 1:
            return  # half-open ones do not last
        charon.terminate_all()
        charon.initiate_async()
        (first,) = wait_for(charon, 1)
        charon.initiate_async()
        two = wait_for(charon, 2)
        # the youngest is the last
        assert two[0].spi_i == first.spi_i
        assert two[1].spi_i != first.spi_i
        assert [item.spi_r for item in two] == [None, None]


@pytest.mark.lab
@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({}, None),
        ({"initiator": {"wrong_secret": True}}, "AUTHENTICATION_FAILED"),
        ({"ike": {"responder_proposals": "aes128-sha256-ecp384"}}, "NO_PROPOSAL_CHOSEN"),
        ({"initiator": {"auth": "eap-md5", "wrong_secret": True}, "responder": {"auth": "rsa"}}, "EAP_FAILURE"),
    ],
)
def test_without_keys_the_log_still_has_messages_and_reasons(lab, tmp_path, data, why):
    (case,) = expand_cases(data | {"measure": "costs"}, "x", "x")
    manifest = check(run_case(case, tmp_path, iterations=2), outcomes=False)
    assert [handshake["why"] for handshake in manifest["handshakes"]] == [why, why]
    assert manifest["files"]["keys"] is None
    for name in manifest["files"]["logs"].values():
        assert "Sk_ei secret" not in gzip.decompress((tmp_path / name).read_bytes()).decode(errors="replace")


@pytest.mark.lab
def test_without_keys_an_unanswered_handshake_is_one_too(lab, tmp_path):
    ike = {"retransmit_timeout_s": 0.1, "retransmit_tries": 1}
    data = {"measure": "costs", "ike": ike, "link": {"loss_percent": 90}, "timeout_s": 5}
    (case,) = expand_cases(data, "x", "x")
    manifest = json.loads(run_case(case, tmp_path, iterations=3).read_text())
    assert "no answer" in [handshake["why"] for handshake in manifest["handshakes"]]
