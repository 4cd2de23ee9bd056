"""What follows a handshake, between real daemons, as their logs have it."""

import pytest

from ikeanalyze.lab import scenario
from ikeanalyze.lab.run import run
from lab.agreement import check

pytestmark = pytest.mark.lab


def followed(tmp_path, **data) -> dict:
    (case,) = scenario.cases(data, "x", "steps")
    manifest = check(run(case, tmp_path))
    (handshake,) = manifest["handshakes"]
    assert handshake["established"]
    assert [(step["what"], step["done"]) for step in handshake["steps"]] == [
        (what, True) for what in data["then"]
    ]
    return manifest["expected"]["initiator"]


def test_all_of_them(lab, tmp_path):
    said = followed(tmp_path, then=["ping", "rekey-child", "rekey-ike", "reauthenticate", "ping", "delete"])
    kinds = [message.split()[0] for message in said["messages"] if " request " in message]
    assert kinds.count("CREATE_CHILD_SA") == 2
    assert kinds.count("IKE_SA_INIT") == kinds.count("IKE_AUTH") == 2
    assert said["established"] == 3


def test_of_ikev1(lab, tmp_path):
    said = followed(
        tmp_path, then=["rekey-child", "reauthenticate"], ike={"version": 1}, initiator={"xauth": True}
    )
    kinds = [message.split()[0] for message in said["messages"]]
    # main mode three messages each time, quick mode two; XAuth's answers are two
    assert (kinds.count("ID_PROT"), kinds.count("QUICK_MODE"), kinds.count("TRANSACTION")) == (6, 4, 4)
