import importlib.metadata
import io
import json
import re
import shutil
import tomllib

import pytest

from ikeanalyze.cli.setup import doctor
from tests.paths import ROOT


def test_the_json_document_is_printed(run):
    done = run("doctor", "--format", "json")
    assert done.exit_code == 0
    document = json.loads(done.stdout)
    assert list(document) == ["schema", "ready", "checks"]
    assert document["schema"] == "ikeanalyze.doctor/1"
    assert document["ready"] is True
    names = [check["name"] for check in document["checks"]]
    assert {"ikeanalyze", "Python", "polars", "gzip", "zstandard", "tshark", "right to capture"} <= set(names)
    for check in document["checks"]:
        assert list(check) == ["name", "state", "found", "needed_for", "how_to_get"]
        assert (check["how_to_get"] is None) == (check["state"] == "ok")


def test_the_table_lists_all_programs(run):
    done = run("doctor")
    assert done.exit_code == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "report and ladder work here. The others do, too" in done.stdout


def test_the_table_is_as_wide_as_columns_without_blanks_at_its_ends(run, monkeypatch):
    tables = {}
    for columns in (60, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        table = tables[columns] = run("doctor").stdout.partition("\n\n")[0].splitlines()
        assert table[0].split() == ["what", "found", "needed", "for"]
        assert max(map(len, table)) <= columns
        assert all(line == line.rstrip() for line in table)
    requirements = json.loads(run("doctor", "--format", "json").stdout)["checks"]
    assert len(tables[60]) > len(tables[200]) == 2 + len(requirements)  # a line each where there is room


def test_missing_programs_are_reported(run, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    done = run("doctor")
    assert done.exit_code == 0
    assert "tshark, for looking into single packets: apt install tshark" in done.stdout


def test_each_dependency_is_checked():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [project["optional-dependencies"][name] for name in ("cluster", "lab", "live", "replay", "view")]
    names = {re.match(r"[\w-]+", text)[0] for part in (project["dependencies"], *extras) for text in part}
    # without these two, the command itself does not start
    assert names - {"msgspec", "packaging"} == {*doctor._PACKAGES, *doctor._OPTIONAL_PACKAGES}


def test_missing_packages_are_reported(run, monkeypatch):
    monkeypatch.setitem(doctor._PACKAGES, "no-such-package", "something")
    done = run("doctor")
    assert done.exit_code == 1
    assert "report cannot work here." in done.stdout


def test_missing_extras_are_reported(run, monkeypatch):
    monkeypatch.setitem(doctor._OPTIONAL_PACKAGES, "no-such-package", ("x", "view"))
    done = run("doctor")
    assert done.exit_code == 0
    assert re.search("^no-such-package, for view: .*pip install --upgrade no-such-package$", done.stdout, re.M)
    assert doctor._check_optional_package("typer", "no_such_module", "x", "y").found.endswith("is incomplete")


def test_a_package_that_cannot_be_loaded(run, monkeypatch):
    def fail(name):
        raise ImportError(f"{name} is broken")

    monkeypatch.setattr(importlib, "import_module", fail)
    done = run("doctor", "--format", "json")
    assert done.exit_code == 1
    assert "polars is broken" in done.stdout


def test_a_program_that_does_not_start(tmp_path, monkeypatch):
    program = tmp_path / "tshark"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    check = doctor._check_program("tshark", "x", "tshark")
    assert (check.state, check.found) == ("lacks", "does not start")
    assert doctor._check_capturing().state == "lacks"


@pytest.mark.parametrize(
    ("opens", "state", "found"),
    [("any", "ok", "2 interfaces"), ("eth0", "lacks", "dumpcap may not open interfaces")],
)
def test_an_interface_is_opened_because_dumpcap_lists_them_to_everyone(tmp_path, monkeypatch, opens, state, found):
    program = tmp_path / "dumpcap"
    program.write_text(
        "#!/bin/sh\n"
        'if [ "$*" = "-D -M" ]; then printf "1. eth0\\t\\t\\t0\\n2. any\\t\\t\\t0\\n"; exit 0; fi\n'
        f'[ "$*" = "-L -M -i {opens}" ]\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    check = doctor._check_capturing()
    assert (check.state, check.found) == (state, found)


@pytest.mark.parametrize(
    ("requirement", "state"),
    [
        ("polars>=9999.1", "broken"),
        ("polars (>=1.2)", "ok"),
        ("polars<1", "broken"),
        ("numpy>=9999", "ok"),
        ('polars>=9999; extra == "test"', "ok"),
        ('polars>=9999; python_version > "3"', "broken"),
    ],
)
def test_required_versions_are_checked(monkeypatch, requirement, state):
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: ["x>=1", requirement])
    assert doctor._check_package("polars", "x").state == state


def test_an_unknown_format_exits_with_2(run):
    done = run("doctor", "--format", "csv")
    assert done.exit_code == 2
    assert "'csv' is not one of 'terminal', 'json'" in done.stderr


def test_our_own_name_is_not_looked_for_in_an_index(run, monkeypatch):
    """Our package may have come from a clone, and somebody else's may have its name there."""
    monkeypatch.setitem(doctor._PACKAGES, "no-such-package", "something")
    monkeypatch.setitem(doctor._OPTIONAL_PACKAGES, "nor-such-package", ("x", "view"))
    stdout = run("doctor").stdout
    assert re.search("^no-such-package, for something: .*pip install --upgrade no-such-package$", stdout, re.M)
    assert re.search("^nor-such-package, for view: .*pip install --upgrade nor-such-package$", stdout, re.M)
    assert "--upgrade ikeanalyze" not in stdout


def test_quiet_is_accepted(run):
    assert run("doctor", "--quiet").exit_code == 0


def test_no_color_leaves_no_escapes(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    doctor._write_table([doctor._ok("x", "1", "everything")], coloured := Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    doctor._write_table([doctor._ok("x", "1", "everything")], plain := Terminal())
    assert "\x1b[" in coloured.getvalue()
    assert "\x1b" not in plain.getvalue()


def test_advice_names_published_packages_only():
    """ikeanalyze is installed from a clone; anyone could publish a package of this name."""
    required = re.findall(r'^    "([\w-]+)[<>=\[]|"([\w-]+)>=', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    published = {name for pair in required for name in pair if name} - {"ikeanalyze"}
    advised = set()
    for path in (ROOT / "ikeanalyze").rglob("*.py"):
        text = path.read_text()
        advised |= set(re.findall(r"pip install(?: --[\w-]+)* ([^\s,)\"]+)", text))
        advised |= set(re.findall(r"advise_install\([\"']([\w-]+)[\"']", text))
    placeholders = {"{}", "{module}", ".", "with"}  # filled in with the names of packages; of the clone
    assert advised - published <= placeholders
    assert {"textual", "distributed", "scapy"} <= advised
    assert set(doctor._OPTIONAL_PACKAGES) | set(doctor._PACKAGES) <= published
