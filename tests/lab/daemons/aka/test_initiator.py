"""Our own initiator as a stack: which cases it can run."""

import pytest

from ikeanalyze.lab import LabError
from ikeanalyze.lab.daemons.registry import check_stacks
from ikeanalyze.lab.scenario.expansion import LabScenarioError, expand_cases

AKA = {"initiator": {"stack": "ikeanalyze", "auth": "eap-aka"}}


def test_eap_aka_is_supported():
    (case,) = expand_cases(AKA, "x", "x")
    check_stacks(case)
    assert case.eap


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"responder": {"stack": "ikeanalyze"}}, "responder.stack = ikeanalyze is not possible"),
        ({"initiator": {"stack": "ikeanalyze", "auth": "rsa"}}, "initiator.auth = psk or eap-aka"),
        (AKA | {"then": ["ping"]}, "does not support then"),
        (AKA | {"abandoned": 1}, "does not support abandoned"),
        ({"initiator": AKA["initiator"] | {"start": "trap"}}, "does not support initiator.start = trap"),
        (AKA | {"responder": {"stack": "libreswan"}}, "initiator.auth = eap-aka needs strongSwan"),
    ],
)
def test_other_settings_are_refused(data, problem):
    with pytest.raises(LabError, match=problem):
        check_stacks(expand_cases(data, "x", "x")[0])


def test_strongswan_has_no_usim():
    with pytest.raises(LabScenarioError, match=r"needs initiator\.stack = ikeanalyze"):
        expand_cases({"initiator": {"auth": "eap-aka"}}, "x", "x")
