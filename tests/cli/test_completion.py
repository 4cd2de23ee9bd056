"""Completion in real shells, installed as README.md says. `make test` installs zsh and fish."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys

import pytest

from tests.paths import ROOT

SHELLS = {"bash": ".bash_completions/ikeanalyze.sh", "zsh": ".zfunc/_ikeanalyze",
          "fish": ".config/fish/completions/ikeanalyze.fish"}  # fmt: skip


@pytest.fixture(params=SHELLS)
def shell(request):
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return request.param


@pytest.fixture
def environment(tmp_path):
    """An empty home, and the command `ikeanalyze`."""
    program = tmp_path / "bin" / "ikeanalyze"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ikeanalyze "$@"\n')
    program.chmod(0o755)
    (tmp_path / ".zshrc").write_text("PS1='ready> '\n")  # without a file, zsh asks a new user questions
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "ZDOTDIR"))}
    path = f"{program.parent}:{os.environ['PATH']}"
    return {**kept, "HOME": str(tmp_path), "PATH": path, "PYTHONPATH": str(ROOT), "TERM": "xterm"}


def install(shell: str, environment: dict[str, str]) -> None:
    # the shell is the parent of the command, by which the command knows it
    done = subprocess.run(
        [shell, "-c", "ikeanalyze --install-completion; true"], env=environment, capture_output=True, text=True
    )
    path = f"{environment['HOME']}/{SHELLS[shell]}"
    assert f"{shell} completion installed in {path}" in done.stdout, done.stderr
    assert os.path.exists(path)


def complete(shell: str, line: str, environment: dict[str, str]) -> str:
    """What the shell offers for the last word of a line, or the line that it makes of it."""
    if shell == "zsh":
        return complete_on_terminal(line, environment)
    words = line.split(" ")
    scripts = {
        "bash": f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _ikeanalyze_completion ikeanalyze; "
        'printf "%s\\n" "${COMPREPLY[@]}"',
        "fish": f"complete -C '{line}'",
    }
    options = ["-ic"] if shell == "bash" else ["-c"]  # an interactive bash reads ~/.bashrc
    done = subprocess.run([shell, *options, scripts[shell]], env=environment, capture_output=True, text=True)
    return "\n".join(text.partition("\t")[0] for text in done.stdout.splitlines())


def complete_on_terminal(line: str, environment: dict[str, str]) -> str:
    """Type a line and Tab in an interactive zsh: its completion works on a terminal only."""
    process, terminal = pty.fork()
    if process == 0:
        os.execvpe("zsh", ["zsh", "-i"], environment)
    shown = ""

    def read(seconds: float) -> str:
        while select.select([terminal], [], [], seconds)[0]:
            text = os.read(terminal, 4096).decode(errors="replace")
            nonlocal shown
            shown += re.sub(r"\x1b\[[\d;?]*[a-zA-Z]|[\x07\x08]", "", text)
            if "ready> " in shown:
                seconds = 0.5
        return shown.rpartition("ready> ")[2]

    try:
        read(60)
        os.write(terminal, line.encode())
        for _ in range(60):
            os.write(terminal, b"\t")  # the first Tab loads the function, the second one calls it
            if len(read(1)) > len(line) + 3:
                break
        return read(0)
    finally:
        os.write(terminal, b"\x03exit\n")
        os.close(terminal)
        os.waitpid(process, 0)


def test_commands_options_and_values_are_completed(shell, environment):
    install(shell, environment)
    assert "wireshark" in complete(shell, "ikeanalyze wires", environment)
    assert "--format" in complete(shell, "ikeanalyze report --form", environment)
    assert "markdown" in complete(shell, "ikeanalyze report --format mark", environment)
    assert "--dry-run" in complete(shell, "ikeanalyze wireshark install --dr", environment)


def test_a_home_that_cannot_be_written_is_named(environment):
    command = ["bash", "-c", "ikeanalyze --install-completion bash; exit $?"]
    done = subprocess.run(command, env={**environment, "HOME": "/dev/null"}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "ikeanalyze: /dev/null: cannot be written: File exists\n")
