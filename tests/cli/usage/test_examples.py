"""The examples at the end of each help text."""

import gzip
import re
import shlex
import shutil

import pytest
import typer

from ikeanalyze.cli.app import app
from ikeanalyze.cli.usage.examples import EXAMPLES
from tests.paths import CAPTURES


def list_commands() -> list[str]:
    """The names of all commands, groups of commands and their commands; "" for the program itself."""
    group = typer.main.get_command(app)
    names = [""]
    for name, command in group.commands.items():
        loaded = command.load() if hasattr(command, "load") else command
        names.append(name)
        names += [f"{name} {part}" for part in getattr(loaded, "commands", {})]
    return names


@pytest.mark.parametrize("name", list_commands(), ids=lambda name: name or "ikeanalyze")
def test_every_help_ends_with_examples(run, name):
    text = run(*name.split(), "--help").stdout
    examples = text.partition("\nExamples:\n")[2].splitlines()
    assert examples == [f"  {line}" for line in EXAMPLES[name]]
    assert max(map(len, examples)) <= 100


def test_no_example_is_of_a_command_that_does_not_exist():
    assert set(EXAMPLES) <= set(list_commands())


@pytest.mark.parametrize("line", sorted({line for lines in EXAMPLES.values() for line in lines}))
def test_examples_have_options_of_their_command(run, line):
    words = shlex.split(line.partition("   ")[0].rpartition("|")[2].strip().removeprefix("sudo "))
    assert words[0] == "ikeanalyze"
    name = " ".join(words[1:3]) if " ".join(words[1:3]) in EXAMPLES else words[1] if words[1] in EXAMPLES else "report"
    text = run(*name.split(), "--help").stdout
    known = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", text))
    assert {word for word in words if word.startswith("-") and word != "-"} <= known


#: Commands whose examples need nothing but a capture and the log of its daemon.
RUNNABLE = ("report", "ladder", "decrypt", "anonymize", "keys", "verify", "predict")


@pytest.mark.parametrize(
    "line", [line for name in RUNNABLE for line in EXAMPLES[name] if "odd.pcap" in line and "--filter" not in line]
)
def test_examples_work_as_they_are(run, tmp_path, monkeypatch, line):
    shutil.copy(CAPTURES / "loss20-classic.pcap", tmp_path / "odd.pcap")
    log = gzip.decompress((CAPTURES / "loss20-classic.charon.log.gz").read_bytes())
    (tmp_path / "charon.log").write_bytes(log)
    monkeypatch.chdir(tmp_path)
    done = run(*shlex.split(line)[1:])
    assert done.exit_code == 0, done.stderr
