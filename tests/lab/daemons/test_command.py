import json
import shutil
import subprocess
from pathlib import Path

import pytest

from ikeanalyze.keys.detect import read_keys
from ikeanalyze.lab import LabError, debian_tree
from ikeanalyze.lab.daemons.registry import check_stacks, find_installed
from ikeanalyze.lab.run.case_run import run_case
from ikeanalyze.lab.scenario.expansion import expand_cases
from tests.lab.agreement import check

CHARON = f"{Path(__file__).parent / 'charon_side.sh'} {debian_tree.NEW.place}"


def case_of(**data):
    (case,) = expand_cases({"timeout_s": 10} | data, "x", "x")
    check_stacks(case)
    return case


@pytest.mark.parametrize(
    ("side", "part"),
    [
        ({"stack": "command"}, "initiator.stack = command needs initiator.command"),
        ({"stack": "command", "command": "a 'b"}, "initiator.command: No closing quotation"),
        ({"command": "a"}, "initiator.command needs initiator.stack = command"),
        ({"stack": "command", "command": "a", "auth": "eap-md5"}, "eap-md5"),
    ],
)
def test_unsupported_settings(side, part):
    with pytest.raises(LabError, match=part):
        case_of(initiator=side)


def test_the_program_is_looked_for_in_the_system_or_in_the_root(tmp_path):
    installed = find_installed("initiator", case_of(initiator={"stack": "command", "command": "sh -c true"}))
    assert (str(installed), installed.program) == ("command sh", shutil.which("sh"))
    side = {"stack": "command", "command": "/opt/ike -v", "root": str(tmp_path)}
    with pytest.raises(LabError, match=r"command is not in .* \(initiator.root\)"):
        find_installed("initiator", case_of(initiator=side))
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt" / "ike").touch()
    installed = find_installed("initiator", case_of(initiator=side))
    assert (installed.root, installed.program) == (tmp_path, "/opt/ike")


@pytest.mark.lab
@pytest.mark.parametrize("role", ["initiator", "responder"])
def test_a_program_that_wraps_a_daemon(lab, tmp_path, role):
    path = run_case(case_of(**{role: {"stack": "command", "command": CHARON}}), tmp_path, iterations=2)
    manifest = json.loads(path.read_text())
    assert manifest["machine"][role] == "command charon_side.sh"
    assert manifest["expected"][role] is None
    for handshake in manifest["handshakes"]:
        assert (handshake["established"], handshake["child"], handshake["why"]) == (True, True, None)
        assert handshake["costs"][role]["processor_ms"] > 0
        assert len(handshake["spi_i"]) == 16
    # the other side's log has messages and keys
    other = "responder" if role == "initiator" else "initiator"
    assert manifest["expected"][other]["established"] == 2
    assert manifest["files"]["keys"] is not None
    keys = read_keys(str(tmp_path / manifest["files"]["keys"])).key_sets
    assert {handshake["spi_i"] for handshake in manifest["handshakes"]} <= {key_set.spi_i.hex() for key_set in keys}


@pytest.mark.lab
def test_the_reason_that_a_program_reports(lab, tmp_path):
    initiator = {"stack": "command", "command": CHARON, "wrong_secret": True}
    manifest = json.loads(run_case(case_of(initiator=initiator), tmp_path).read_text())
    assert [handshake["why"] for handshake in manifest["handshakes"]] == ["AUTHENTICATION_FAILED"]


@pytest.mark.lab
def test_a_program_that_does_not_get_ready(lab, tmp_path):
    side = {"stack": "command", "command": "sh -c 'echo no licence; exit 1'"}
    with pytest.raises(LabError, match=r"responder\.command did not get ready: no licence"):
        run_case(case_of(responder=side), tmp_path)


@pytest.mark.lab
def test_no_process_of_a_program_stays(lab, tmp_path):
    side = {"stack": "command", "command": "sh -c 'sleep 91827 & echo lab: ready; exec cat'"}
    case = case_of(initiator=side, timeout_s=1)
    run_case(case, tmp_path)
    assert "91827" not in subprocess.run(["ps", "ax"], capture_output=True, text=True, check=True).stdout


@pytest.mark.lab
def test_a_daemon_in_a_root_file_system(lab, tmp_path):
    """As `docker export IMAGE | tar x` makes one."""
    sides = {"initiator": {"root": str(debian_tree.OLD.place)}, "responder": {"root": str(debian_tree.NEW.place)}}
    manifest = check(run_case(case_of(**sides), tmp_path))
    assert manifest["handshakes"][0]["child"]
    assert manifest["machine"]["initiator"].startswith("strongSwan 5.9")
    assert manifest["machine"]["responder"].startswith("strongSwan 6")
