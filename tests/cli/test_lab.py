import subprocess
import sys


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


def test_doctor_names_what_the_lab_needs():
    done = subprocess.run(
        [sys.executable, "-m", "ikeanalyze", "lab", "doctor"], capture_output=True, text=True, check=False
    )
    assert {"strongSwan", "FreeRADIUS", "dumpcap", "netem"} <= {
        word for line in done.stdout.splitlines() for word in line.split()
    }
