import json
from itertools import product
from types import SimpleNamespace

import pytest

from ikeanalyze.lab import LabError, matrix
from ikeanalyze.lab.daemons.registry import list_stacks
from ikeanalyze.lab.matrix import (
    InteropResult,
    build_interop_case,
    format_matrix,
    list_installed_names,
    run_matrix,
    summarize_manifest,
)
from ikeanalyze.lab.scenario.settings import OWN_STACK
from tests.lab.interop_matrix import read_section


def manifest(established=True, child=True, why=None, messages=("IKE_SA_INIT request 0",), responder=1):
    return {
        "scenario": {"initiator.auth": "psk"},
        "machine": {"initiator": "strongSwan 6.1.0", "responder": "OpenIKED 7.4 (without ESP: PF_KEY is emulated)"},
        "handshakes": [{"established": established, "child": child, "why": why}],
        "expected": {
            "initiator": None if messages is None else {"messages": list(messages)},
            "responder": {"messages": ["IKE_AUTH response 1"], "established": responder},
        },
    }


AUTH = ("IKE_SA_INIT request 0", "IKE_AUTH request 1")


@pytest.mark.parametrize(
    ("values", "ike_sa", "key_exchange", "why"),
    [
        ({"messages": AUTH}, "both", "ECP-256", ""),
        ({"messages": (*AUTH[:1], "IKE_INTERMEDIATE request 1")}, "both", "ECP-256, ML-KEM-768", ""),
        (
            {"established": False, "child": False, "why": "NO_PROPOSAL_CHOSEN", "responder": 0},
            "none",
            "",
            "NO_PROPOSAL_CHOSEN",
        ),
        (
            {"established": False, "child": False, "why": "TEMPORARY_FAILURE", "messages": AUTH},
            "responder",
            "ECP-256",
            "TEMPORARY_FAILURE",
        ),
        ({"messages": None}, "both", "ECP-256", ""),  # its log has no messages: those of the responder
    ],
)
def test_a_handshake_as_both_sides_report_it(values, ike_sa, key_exchange, why):
    result = summarize_manifest(manifest(**values))
    assert (result.initiator, result.responder) == ("strongSwan 6.1.0", "OpenIKED 7.4")
    assert (result.ike_sa, result.key_exchange, result.why) == (ike_sa, key_exchange, why)


def test_the_table_has_a_row_for_each_result():
    result = InteropResult("A 1", "B 2", "psk", "not run", None, "", "responder.auth is for A")
    assert format_matrix([result]).splitlines()[2] == "| A 1 | B 2 | psk | not run |  |  | responder.auth is for A |"


def test_only_daemons_are_paired():
    """Our own initiator is a stack of scenarios, and no responder."""
    assert OWN_STACK in {stack.name for stack in list_stacks()}
    assert not [name for name in list_installed_names() if name.startswith(OWN_STACK)]


def test_a_pair_that_does_not_start_is_a_row_and_the_others_are_run(monkeypatch, tmp_path):
    def run_case(case, out, *, iterations):
        if case.settings.responder.stack == "second":
            raise LabError("second 2.0 did not start on the responder: no configuration")
        (out / "x").write_text(json.dumps(manifest(messages=AUTH)))
        return out / "x"

    monkeypatch.setattr(matrix, "check_stacks", lambda _: None)
    monkeypatch.setattr(matrix, "run_case", run_case)
    monkeypatch.setattr(matrix, "build_interop_case", build_pair)
    results = run_matrix(["first", "second"], tmp_path)
    assert [(result.ike_sa, result.why) for result in results[:2]] == [
        ("both", ""),
        ("not run", "second 2.0 did not start on the responder: no configuration"),
    ]
    assert len(results) == 8


def build_pair(initiator, responder, auth):
    sides = SimpleNamespace(initiator=SimpleNamespace(stack=initiator), responder=SimpleNamespace(stack=responder))
    return SimpleNamespace(settings=sides, auth=auth)


def test_the_documentation_has_every_pair():
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in read_section().splitlines()]
    header, _, *body = rows
    assert header == [cell.strip() for cell in format_matrix([]).splitlines()[0].split("|")[1:-1]]
    stacks = {row[0] for row in body}
    assert {name.split()[0] for name in stacks} >= {"strongSwan", "libreswan", "OpenIKED"}
    assert {tuple(row[:3]) for row in body} == set(product(stacks, stacks, ("psk", "rsa")))


@pytest.mark.lab
def test_each_side_proposes_the_best_that_its_stack_supports(lab):
    ike = build_interop_case("strongswan-6.1", "strongswan-5.9", "psk").settings.ike
    assert "mlkem768" in ike.proposals
    assert ike.responder_proposals == "aes256-sha256-ecp256"
    assert build_interop_case("openiked-7.4", "libreswan-5.2", "psk").settings.ike.proposals == "aes256-sha256-ecp256"


@pytest.mark.lab
def test_a_stack_with_itself(lab, tmp_path):
    results = run_matrix(["strongswan-6.1"], tmp_path)
    assert [(result.auth, result.ike_sa, result.child_sa, result.key_exchange) for result in results] == [
        (auth, "both", True, "ECP-256, ML-KEM-768") for auth in ("psk", "rsa")
    ]
    assert len(list(tmp_path.glob("*.manifest.json"))) == 2
