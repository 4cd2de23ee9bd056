import os
import re
import subprocess
import sys

import pytest
import typer

from ikeanalyze.cli.experiments import lab as command
from ikeanalyze.cli.options import MessageOptions
from ikeanalyze.lab import LabError
from ikeanalyze.lab.campaign import runner
from ikeanalyze.lab.manifest import ActionResult, RecordedLabHandshake
from ikeanalyze.lab.matrix import InteropResult
from ikeanalyze.lab.run.output_folder import exclusive_output_dir


def test_a_wrong_scenario_is_one_line(tmp_path):
    (tmp_path / "x.toml").write_text("[link]\nloss_percent = 'much'\n")
    command = [
        sys.executable,
        "-m",
        "ikeanalyze",
        "lab",
        "run",
        str(tmp_path / "x.toml"),
        "-o",
        str(tmp_path / "out"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "link.loss_percent = 'much' is not allowed; allowed is a number from 0 to 90" in done.stderr


@pytest.mark.parametrize("value", ["link.los_percent=5", "link.loss_percent"])
def test_a_wrong_value_of_the_command_line_is_a_usage_error(run, tmp_path, value):
    done = run("lab", "run", str(tmp_path / "x.toml"), "-o", str(tmp_path / "out"), "--set", value)
    assert done.exit_code == 2
    assert f"Invalid value for --set: {value}: " in done.stderr


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("link.loss_percent=200", "link.loss_percent = 200 is not allowed; allowed is a number from 0 to 90"),
        ("link.loss_percent=[0, 200]", "link.loss_percent = 200 is not allowed; allowed is a number from 0 to 90"),
        ("link.loss_percent=[]", "link.loss_percent is an empty list"),
        ("ip_version=5", "ip_version = 5 is not allowed"),
    ],
)
def test_a_value_of_the_command_line_is_not_blamed_on_the_file(run, tmp_path, value, problem):
    path = tmp_path / "x.toml"
    path.write_text("[link]\nloss_percent = 5\n")
    done = run("lab", "run", str(path), "-o", str(tmp_path / "out"), "--set", value)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"ikeanalyze: Invalid value for --set: {value}: {problem}")
    assert "x.toml" not in done.stderr


def test_doctor_names_what_the_lab_needs():
    done = subprocess.run(
        [sys.executable, "-m", "ikeanalyze", "lab", "doctor"], capture_output=True, text=True, check=False
    )
    wanted = {"strongSwan", "FreeRADIUS", "libreswan", "dumpcap", "netem", "sysctl", "unshare", "debootstrap"}
    assert wanted <= {word for line in done.stdout.splitlines() for word in line.split()}


def run(*arguments: str, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [*before, sys.executable, "-m", "ikeanalyze", "lab", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("none.toml", None, "none.toml: No such file or directory"),
        ("bytes.toml", b"\xff\xfe", "bytes.toml: not TOML"),
        ("a b.toml", b"", "a b.toml: the file's name must consist of"),
        ("key.toml", b"[link]\nrtt = 5", "key.toml: unknown key link.rtt; did you mean link.rtt_ms?"),
        ("stack.toml", b"[initiator]\nstack = 6", "stack.toml: initiator.stack = 6 is not allowed"),
        ("much.toml", b"iterations = 1000000", "much.toml: iterations = 1000000 is not allowed"),
    ],
)
def test_a_scenario_that_cannot_be_run_is_one_line_with_file_and_key(tmp_path, name, content, said):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    done = run("run", str(tmp_path / name), "-o", str(tmp_path / "out"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("ikeanalyze: ")
    assert said in done.stderr
    assert not (tmp_path / "out").exists()


def test_doctor_names_each_case_that_cannot_be_run(tmp_path):
    path = tmp_path / "old.toml"
    path.write_text('[ike]\nversion = 1\n[responder]\nstack = ["libreswan", "openiked"]\n')
    done = run("doctor", str(path))
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if ": the lab lacks " not in line]  # such as root
    assert lines == [
        f"ikeanalyze: {path}: old_responder-stack-libreswan: responder.stack = libreswan needs ike.version = 2 in the lab",
        f"ikeanalyze: {path}: old_responder-stack-openiked: responder.stack = openiked needs ike.version = 2: it has no IKEv1",
    ]


def test_doctor_names_a_scenario_whose_cases_can_all_be_run(tmp_path):
    good, bad = tmp_path / "good.toml", tmp_path / "bad.toml"
    good.write_text('initiator.stack = "strongswan"\nlink.rtt_ms = [0, 10, 20]\n')
    bad.write_text("ike.version = 3\n")
    done = run("doctor", str(good), str(bad))
    assert done.returncode == 1
    assert f"{bad}: ike.version = 3 is not allowed" in done.stderr
    named = [line.split() for line in done.stdout.splitlines() if line.split()[1] == "scenario"]
    # a machine without the daemons has a line of the other kind
    assert named == ([] if f"{good}: " in done.stderr else [["ok", "scenario", f"{good}:", "3", "cases"]])


def test_an_interrupted_matrix_prints_the_pairs_that_were_run(monkeypatch, capsys, tmp_path):
    def run_matrix(names, out, on_result):
        on_result(InteropResult("A 1", "B 2", "psk", "both", True, "ECP-256", ""))
        raise KeyboardInterrupt

    for name, replacement in {
        "run_matrix": run_matrix,
        "_check_machine": lambda: None,
        "_end_like_ctrl_c": lambda: None,
    }.items():
        monkeypatch.setattr(command, name, replacement)
    with pytest.raises(KeyboardInterrupt):
        command.matrix(str(tmp_path), MessageOptions(quiet=True))
    assert capsys.readouterr().out.splitlines()[2:] == ["| A 1 | B 2 | psk | both | yes | ECP-256 |  |"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_standard_output_is_one_line():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ikeanalyze", "lab", "doctor"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert (
        done.stderr
        == "ikeanalyze: standard output: cannot be written: No space left on device. Name another output with -o\n"
    )


def test_wrong_usage_exits_with_2(tmp_path):
    for arguments in ([], ["x.toml"], ["x.toml", "-o", str(tmp_path), "-n", "0"]):
        done = run("run", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1


def test_an_ordinary_user_is_told_to_be_root(tmp_path):
    # another user than root who may read what root may: a user namespace that nobody is mapped into
    before = ("unshare", "--user") if os.geteuid() == 0 else ()
    if before and subprocess.run([*before, "true"], check=False).returncode:
        assert not os.environ.get("CI"), "no user namespaces here, which this test needs as root"
        pytest.skip("no user namespaces here")
    (tmp_path / "x.toml").touch()
    done = run("run", str(tmp_path / "x.toml"), "-o", str(tmp_path / "out"), before=before)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "ikeanalyze: the lab lacks root (no): run it with sudo\n"
    assert not (tmp_path / "out").exists()
    done = run("doctor", before=before)
    assert done.returncode == 1
    assert "MISSING root" in done.stdout
    assert re.search(r"^\?       netem +only root can find out$", done.stdout, re.MULTILINE)
    assert re.search(r"^\?       network namespaces +only root can find out$", done.stdout, re.MULTILINE)


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user is told to be root")
@pytest.mark.parametrize(
    ("capability", "problem"),
    [
        ("sys_admin", "unshare: unshare failed: Operation not permitted"),
        ("net_admin", "RTNETLINK answers: Operation not permitted"),
    ],
)
def test_a_container_without_a_capability_is_told_which_the_lab_needs(tmp_path, capability, problem):
    (tmp_path / "x.toml").touch()
    before = ("setpriv", "--bounding-set", f"-{capability}", "--inh-caps", f"-{capability}")
    remedy = "the lab needs CAP_SYS_ADMIN and CAP_NET_ADMIN; a container has them with --privileged (docker, podman)"
    done = run("run", str(tmp_path / "x.toml"), "-o", str(tmp_path / "out"), before=before)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"ikeanalyze: the lab lacks network namespaces ({problem}): {remedy}\n"
    done = run("doctor", before=before)
    assert done.returncode == 1
    assert f"{problem} ({remedy})\n" in done.stdout
    # without permission, nothing is said about the kernel
    assert re.search(r"^\?       netem +found out only with network namespaces$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("established", "child", "why", "steps", "said"),
    [
        (True, True, None, [ActionResult("ping", True, None)], "13 ms"),
        (False, False, "no answer", [], "failed: no answer"),
        (True, False, "TS_UNACCEPTABLE", [], "13 ms; without a CHILD_SA (TS_UNACCEPTABLE)"),
        (True, True, None, [ActionResult("ping", False, "no answer")], "13 ms; ping failed: no answer"),
    ],
)
def test_a_handshake_that_went_wrong_in_part_says_so(established, child, why, steps, said):
    assert command._describe(RecordedLabHandshake(1, established, child, why, 12.6, None, None, {}, steps)) == said


def test_the_folder_is_one_runs_from_the_first_case_to_the_last(tmp_path, monkeypatch, capsys):
    """The cases themselves are `tests/lab`'s: here nothing is run."""
    (tmp_path / "x.toml").write_text("link.rtt_ms = [1, 2]\n")

    def run(case, out, **_):
        with pytest.raises(LabError, match="another run"), exclusive_output_dir(out):
            pass
        return out / case.name

    monkeypatch.setattr(runner, "run_case", run)
    monkeypatch.setattr(command, "check_case", lambda case: None)
    monkeypatch.setattr(command, "_check_machine", lambda only=None: None)
    monkeypatch.setattr(command.signal, "signal", lambda *_: None)
    command.run(str(tmp_path / "x.toml"), str(tmp_path / "out"), MessageOptions(quiet=True))
    assert capsys.readouterr().out.count("\n") == 2
    with exclusive_output_dir(tmp_path / "out"):
        pass  # free again


def test_a_case_that_fails_does_not_stop_the_others(tmp_path, monkeypatch, capsys):
    """Exit status 1, and a line for each failure even if the command is quiet."""
    (tmp_path / "x.toml").write_text("link.rtt_ms = [1, 2, 3]\n")

    def run(case, out, **_):
        if case.name.endswith("2"):
            raise LabError("the daemon of the initiator ended by itself")
        return out / case.name

    monkeypatch.setattr(runner, "run_case", run)
    monkeypatch.setattr(command, "check_case", lambda case: None)
    monkeypatch.setattr(command, "_check_machine", lambda only=None: None)
    monkeypatch.setattr(command.signal, "signal", lambda *_: None)
    with pytest.raises(typer.Exit) as ended:
        command.run(str(tmp_path / "x.toml"), str(tmp_path / "out"), MessageOptions(quiet=True))
    assert ended.value.exit_code == 1
    printed, errors = capsys.readouterr()
    assert [line.rpartition("-")[2] for line in printed.splitlines()] == ["1", "3"]
    scenario = tmp_path / "x.toml"
    assert errors == f"ikeanalyze: {scenario}: x_rtt-ms-2: the daemon of the initiator ended by itself\n"
