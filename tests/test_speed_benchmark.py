"""The benchmark of docs/speed.md: how programs are run and compared."""

import sys
from pathlib import Path

import pytest

from benchmarks.readers import Reader, Run
from benchmarks.speed.programs import Tshark, Version, list_versions
from benchmarks.speed.terminal import run_until_shown
from benchmarks.speed.works import Work, WorkList

READY = "import sys, tty; tty.setraw(0); print('\\x1b[1mre\\x1b[0mady', flush=True); sys.stdin.read(1)"


@pytest.mark.parametrize(("text", "shown"), [("ready", True), ("done", False)])
def test_a_program_that_shows_a_text_in_a_terminal(text, shown):
    code = READY if shown else "print('ready')"
    assert run_until_shown(text, [sys.executable, "-c", code]) is shown


def read(name: str, seconds: float, processor_s: float) -> Reader:
    return Reader(name, [], runs=[Run(seconds, 5_000_000, processor_s=processor_s)])


def test_programs_are_compared_with_the_other_one():
    work = Work("`report`", Path("x"), [read("ikeanalyze", 2, 3)], read("tshark", 8, 6))
    assert list(work.format_rows()) == [
        "| `report` | ikeanalyze | 2.00 | 3.00 | 5 | 4.00 | 2.00 |\n",
        "| `report` | tshark | 8.00 | 6.00 | 5 |  |  |\n",
    ]


def test_a_program_that_fails_has_no_time(tmp_path):
    fails = [sys.executable, "-c", "import sys; sys.exit('no such file')"]
    work = Work("`report`", tmp_path, [Reader("ikeanalyze", [fails], from_stdin=False)])
    work.run(1)
    assert next(work.format_rows()) == "| `report` | ikeanalyze | failed: no such file | | | | |\n"


def test_the_peak_of_a_program_is_its_own_however_large_the_one_that_starts_it_is(tmp_path):
    """Here it is pytest with numpy and polars; /bin/sleep and the program that starts it have less than 20 MB."""
    sleep = Reader("sleep", [["sleep", "0.01"]], from_stdin=False)
    assert 1e5 < sleep.run(tmp_path).peak_bytes < 20e6


def test_the_peak_of_a_program_has_that_of_the_programs_it_starts(tmp_path):
    large = "bytearray(60_000_000)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {large!r}], check=True)"
    starting = Reader("starting", [[sys.executable, "-c", code]], from_stdin=False)
    assert 60e6 < starting.run(tmp_path).peak_bytes < 90e6


def test_commands_are_connected_by_pipes(tmp_path):
    (tmp_path / "text").write_text("ab")
    count = "import sys; sys.exit(f'{len(sys.stdin.read())} characters')"
    for from_stdin, characters in ((True, 4), (False, 2)):
        doubling = [sys.executable, "-c", "import sys; print(end='ab' + sys.stdin.read())"]
        reader = Reader("pipe", [doubling, [sys.executable, "-c", count]], from_stdin=from_stdin)
        assert reader.run(tmp_path / "text").error == f"{characters} characters"


def test_slow_programs_are_run_once(tmp_path):
    printing = [sys.executable, "-c", ""]
    slow, fast = (Reader(name, [printing], from_stdin=False, once=name == "slow") for name in ("slow", "fast"))
    Work("`report`", tmp_path, [fast], slow).run(3)
    assert (len(slow.runs), len(fast.runs)) == (1, 3)


def test_commands_without_another_program_are_compared_with_the_earlier_version(tmp_path):
    tshark = Tshark(["tshark"], "4", Path("/"))
    works = WorkList(
        versions=list_versions(compiled=True),
        before=Version("before", ["earlier"]),
        tshark=tshark,
        own_tshark=tshark,
        tshark_keys={},
        size=1 << 30,
        out=tmp_path,
    )
    others = {work.name: work.other.name if work.other else None for work in works}
    assert others["`report` of 1GiB of IKE"] == "tshark 4, 7 fields"
    assert others["`batch` of 2,000 captures"] == "xargs -P2 tshark 4 -T fields"
    assert {others[name] for name in others if name.startswith(("`view`", "`predict`", "`compare`"))} == {"before"}
    # the earlier version does not know this option
    assert others["`report --max-memory 500M --jobs 1` of 3GiB of IKE"] is None
