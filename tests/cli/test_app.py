"""The table of commands: modules are loaded when a command is called, and shells complete commands and options."""

import os
import subprocess
import sys

import pytest

from ikeanalyze.cli.app import COMMANDS
from tests.paths import CAPTURES

#: Commands that fork the reader of a capture, or the processes of a batch, which they cannot do after polars has
#: started its threads.
FORKING = ["report", "ladder", "view", "decrypt", "extract", "anonymize", "verify", "predict", "replay", "batch"]


def loaded_by(code: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", f"{code}; print(*sys.modules)"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split("\n")[-2].split())


def test_the_help_loads_no_command():
    loaded = loaded_by(
        "import sys; from ikeanalyze.cli.app import app; from typer.testing import CliRunner; "
        "assert 'Commands:' in CliRunner().invoke(app, ['--help']).stdout"
    )
    modules = {f"ikeanalyze.cli.{module}" for module, _ in COMMANDS.values()}
    assert loaded & {*modules, "polars", "numpy", "rich"} == set()
    assert "ikeanalyze.cli.app" in loaded


@pytest.mark.parametrize("name", FORKING)
def test_polars_is_not_loaded_before_captures_are_read(name):
    module = f"ikeanalyze.cli.{COMMANDS[name][0]}"
    loaded = loaded_by(f"import sys, {module}")
    assert module in loaded
    assert "polars" not in loaded


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(run, name):
    done = run(name, "--help")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: ikeanalyze {name} ")
    assert f"\n  {name} " in run("--help").stdout


def complete(*words: str) -> list[str]:
    """What bash is offered for the last word."""
    environment = {
        **os.environ,
        "_IKEANALYZE_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["ikeanalyze", *words]),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run([sys.executable, "-m", "ikeanalyze"], capture_output=True, text=True, env=environment)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        (("re",), ["report", "replay"]),
        (("overhead", ""), ["compute", "paper", "measure"]),
        (("report", "--no"), ["--no-limit"]),
        (("keys", "x", "--to", ""), ["wireshark", "json"]),
        (("overhead", "compute", "--format", ""), ["terminal", "json", "csv", "markdown"]),
        (("overhead", "compute", "--mode", "t"), ["transport", "tunnel"]),
        (("replay", "x", "--mode", "re"), ["reenact"]),
        (("predict", "x", "--vantage", ""), ["initiator", "responder"]),
        (("doctor", "--format", "j"), ["json"]),
    ],
    ids=" ".join,
)
def test_shells_complete_commands_and_options(words, completions):
    assert complete(*words) == completions


def test_a_path_in_place_of_a_command_is_reported(run):
    path = str(CAPTURES / "psk-classic.pcap")
    for arguments in ((path,), (path, "--format", "csv"), (path, "--handshake", "1", "--quiet")):
        done = run(*arguments)
        assert (done.exit_code, done.stdout) == (0, run("report", *arguments).stdout)
    done = run("none.pcap")
    assert (done.exit_code, done.stderr) == (1, "ikeanalyze: none.pcap: no such file\n")


def test_a_file_with_the_name_of_a_command_does_not_hide_the_command(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "doctor").write_bytes((CAPTURES / "psk-classic.pcap").read_bytes())
    assert run("doctor", "--help").stdout.startswith("Usage: ikeanalyze doctor ")
    assert "Handshake 1: completed" in run("./doctor").stdout


def test_a_command_after_the_capture_is_wrong_usage(run):
    done = run("a.pcap", "ladder", "--handshake", "2")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("ikeanalyze: ladder is a command, which comes first: ikeanalyze ladder a.pcap.")


def test_a_misspelt_command_is_not_a_path(run):
    done = run("repot")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "No such command 'repot'. Did you mean 'report'?" in done.stderr


def test_an_option_before_the_command_is_told_where_to_go(run):
    done = run("--keys", "charon.log", "report", "odd.pcap")
    assert done.exit_code == 2
    assert "No such option: --keys before the command; options follow it." in done.stderr
    done = run("--versoin")
    assert done.exit_code == 2
    assert "No such option: --versoin before the command; options follow it. Did you mean --version? See" in done.stderr


def test_help_and_version_as_other_programs_have_them(run):
    assert run("help").stdout == run("--help").stdout
    assert run("help", "report").stdout == run("report", "--help").stdout
    assert run("help", "lab", "run").stdout == run("lab", "run", "--help").stdout
    assert run("-V").stdout == run("--version").stdout
