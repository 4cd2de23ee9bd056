"""What follows a handshake, between real daemons, as their logs have it."""

import json
import time
from collections import Counter

import pytest

from ikeanalyze.lab import actions, machine
from ikeanalyze.lab.network import topology
from ikeanalyze.lab.network.namespaces import NetnsSandbox, run_command
from ikeanalyze.lab.run.case_run import run_case
from ikeanalyze.lab.scenario.expansion import expand_cases
from tests.lab.agreement import check

pytestmark = pytest.mark.lab


def followed(tmp_path, **data) -> dict:
    (case,) = expand_cases(data, "x", "steps")
    for run in range(3):
        (tmp_path / str(run)).mkdir()
        path = run_case(case, tmp_path / str(run))
        # on a busy machine, charon may drop a Quick Mode request that comes while it handles the message before
        if json.loads(path.read_text())["handshakes"][0]["child"] or "version" not in data.get("ike", {}):
            break
    manifest = check(path)
    (handshake,) = manifest["handshakes"]
    assert handshake["established"]
    assert [(step["what"], step["done"]) for step in handshake["steps"]] == [(item, True) for item in data["then"]]
    return manifest["expected"]["initiator"]


def test_all_of_them(lab, tmp_path):
    reported = followed(tmp_path, then=["ping", "rekey-child", "rekey-ike", "reauthenticate", "ping", "delete"])
    kinds = Counter(message.split()[0] for message in reported["messages"] if " request " in message)
    informational = kinds.pop("INFORMATIONAL")
    assert min(kinds["CREATE_CHILD_SA"], kinds["IKE_SA_INIT"], kinds["IKE_AUTH"]) >= 2
    assert kinds.total() + informational - reported["requests_retransmitted"] == 6 + 4  # which delete what was replaced
    assert reported["established"] == 3


def test_actions_rekey_and_reauthenticate_ikev1(lab, tmp_path):
    reported = followed(tmp_path, then=["rekey-child", "reauthenticate"], ike={"version": 1}, initiator={"xauth": True})
    kinds = Counter(message.split()[0] for message in reported["messages"])
    # main mode three messages each time, quick mode two; XAuth's answers are two
    assert (kinds["QUICK_MODE"], kinds["TRANSACTION"]) == (4, 4)
    # charon takes no notice of a response that comes before it has put its new IKE SA among the others
    assert kinds["ID_PROT"] - reported["requests_retransmitted"] == 6


def test_without_a_child_sa_and_without_an_ike_sa_each_step_says_why(lab, tmp_path):
    data = {"then": ["ping", "delete"], "timeout_s": 1, "initiator": {"stack": "libreswan"}}
    (case,) = expand_cases(data | {"responder": {"stack": "libreswan"}}, "x", "childless")
    (handshake,) = check(run_case(case, tmp_path))["handshakes"]
    ping, delete = handshake["steps"]
    if not machine.has_kernel_esp():
        assert (handshake["established"], handshake["child"]) == (True, False)
        assert ping == {"what": "ping", "done": False, "why": "no answer", "counts": None}
    assert (delete["what"], delete["done"]) == ("delete", True)
    wrong = {"initiator": {"auth": "psk", "wrong_secret": True}, "then": ["ping", "delete"]}
    (case,) = expand_cases(wrong, "x", "refused")
    (handshake,) = check(run_case(case, tmp_path))["handshakes"]
    assert not handshake["established"]
    assert [(step["what"], step["done"], step["why"]) for step in handshake["steps"]] == [
        (item, False, "no IKE SA") for item in data["then"]
    ]


def test_a_ping_waits_no_longer_than_the_case_allows(lab):
    (case,) = expand_cases({"timeout_s": 1}, "x", "x")
    with NetnsSandbox() as sandbox:
        network = topology.build_network(sandbox, case)  # nothing carries the frames
        way = ("ip", "route", "add", topology.INNER["responder"], "via", network.responder_address)
        run_command(network.initiator.command(*way))
        began = time.monotonic()
        attempt = actions.run_step("ping", None, network, case)
        assert (attempt.done, attempt.why) == (False, "no answer")
        assert time.monotonic() - began < 4.5  # not the 5 s that it has otherwise


def test_a_further_child_sa_for_another_network_is_refused_in_the_ike_sa_that_exists(lab, tmp_path):
    reported = followed(tmp_path, then=["wrong-network"])
    kinds = Counter(message.split()[0] for message in reported["messages"] if " request " in message)
    assert (kinds["IKE_SA_INIT"], kinds["CREATE_CHILD_SA"]) == (1, 1)
