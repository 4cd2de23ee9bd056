"""The command line, run in this process on captures, key files and TOML files, for every command that reads them.

The first byte selects the command line. The exit status is a documented one, no error is an internal one, and what
people read is printable.
"""

from pathlib import Path
from random import Random
from typing import Final

from typer.testing import CliRunner

from fuzz.harness import Harness
from fuzz.laws import check_printable, check_text
from fuzz.mutators.captures import mutate_capture
from fuzz.mutators.text import mutate_text
from fuzz.parts import make_parts_mutator, split_parts
from fuzz.workspace import get_path, write_file
from ikeanalyze.cli.app import app
from ikeanalyze.render import Format

#: Success, failure, wrong usage, some inputs skipped.
_STATUSES: Final = (0, 1, 2, 3)

#: Command lines by the first byte of an input: {c} is the capture, {k} a key file, {t} a TOML file, {o} an output file.
#: With the format on standard output, if it is for programs. Reproducers depend on the order: add to the end.
COMMANDS: Final[tuple[tuple[str, Format], ...]] = (
    ("report {c} --keys {k}", Format.TERMINAL),
    ("report {c} {c} --format json --keys {k}", Format.JSON),
    ("report {c} --format jsonl --port 1812 --rtt 10 --vantage responder", Format.JSONL),
    ("report {c} --format markdown --handshake 1", Format.MARKDOWN),
    ("report {c} --format csv", Format.CSV),
    ("ladder {c} --keys {k}", Format.TERMINAL),
    ("decrypt {c} --keys {k} -o {o}", Format.TERMINAL),
    ("keys {k}", Format.TERMINAL),
    ("keys {k} --format json", Format.JSON),
    ("verify {c} --keys {k}", Format.TERMINAL),
    ("verify {c} --keys {k} --psk {t} --format json", Format.JSON),
    ("predict {c} --rtt 10 --loss 0.1 --runs 20", Format.TERMINAL),
    ("predict {c} --keys {k} --link {t} --runs 20 --format json", Format.JSON),
    ("predict {c} --rtt 5 --runs 20 --retransmission-policy {t} --format csv", Format.CSV),
    ("overhead measure {c} --keys {k}", Format.TERMINAL),
    ("overhead measure {c} --keys {k} --format json", Format.JSON),
    ("rank {t}", Format.TERMINAL),
    ("rank {t} --format json", Format.JSON),
    ("extract {c} --keys {k} --annotate --with radius,esp -o {o}", Format.TERMINAL),
    ("anonymize {c} --port 1812 -o {o}", Format.TERMINAL),
    ("anonymize {c} --keys {k} -o {o}", Format.TERMINAL),
    ("keys {k} --embed {c} -o {o}", Format.TERMINAL),
)


def run(data: bytes) -> None:
    """Run a command line on a capture, a key file and a TOML file."""
    capture, keys, toml = split_parts(data[1:], 3)
    paths = {
        "c": write_file("capture.pcap", capture),
        "k": write_file("keys", keys),
        "t": write_file("file.toml", toml),
        "o": get_path("output.pcapng"),
    }
    Path(paths["o"]).unlink(missing_ok=True)
    line, form = COMMANDS[(data or b"\0")[0] % len(COMMANDS)]
    arguments = [word.format(**paths) for word in line.split()]
    # a traceback of an internal error is printed with --verbose
    result = CliRunner().invoke(app, [*arguments, "--verbose"], prog_name="ikeanalyze", catch_exceptions=False)
    assert "internal error" not in result.stderr, result.stderr
    assert "Traceback" not in result.stderr, result.stderr
    assert result.exit_code in _STATUSES, result.exit_code
    check_printable(result.stderr)
    if result.exit_code in (0, 3):
        check_text(form, result.stdout)


_mutate_files: Final = make_parts_mutator([mutate_capture, mutate_text, mutate_text], weights=[4, 2, 2])


def mutate(data: bytes, rng: Random) -> bytes:
    """Change one of the files, and sometimes the command line."""
    command = bytes([rng.randrange(len(COMMANDS))]) if not data or rng.random() < 0.3 else data[:1]
    return command + _mutate_files(data[1:], rng)


HARNESS: Final = Harness(run, mutate, max_bytes=49152, share=0.01)
