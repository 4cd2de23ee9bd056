import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from hatchling.build import build_wheel

from ikeanalyze import core
from tests.paths import ROOT


def status(**environment):
    script = "from ikeanalyze import core; print(core.compiled is None, core.problem)"
    command = [sys.executable, "-c", script]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True).stdout


def test_the_core_is_used_where_it_is_built():
    assert status() == "False None\n"


def test_an_environment_variable_leaves_it_out():
    assert status(IKEANALYZE_CORE="0") == "True left out, because IKEANALYZE_CORE is 0\n"


def test_a_core_of_other_sources_is_not_used():
    script = (
        "from ikeanalyze import _core; _core.INTERFACE = 0; from ikeanalyze import core; "
        "print(core.compiled, core.problem)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "None built from other sources\n"


def test_wrong_arguments_are_python_errors():
    nothing, one = np.zeros(0, np.int64), np.zeros(1, np.int64)
    buffer = np.zeros(4, np.uint8)
    with pytest.raises(ValueError, match="outside"):
        core.compiled.copy_ranges(buffer.copy(), 0, buffer, one, one + 5)
    with pytest.raises(ValueError, match="different lengths"):
        core.compiled.copy_ranges(buffer.copy(), 0, buffer, one, nothing)
    with pytest.raises(TypeError):
        core.compiled.copy_ranges(buffer.copy(), 0, buffer, nothing.astype(np.int32), nothing)
    for target in (np.frombuffer(bytes(4), np.uint8), buffer):
        with pytest.raises(TypeError):
            core.compiled.copy_ranges(target, 0, buffer, nothing, nothing)
    with pytest.raises(ValueError, match="different lengths"):
        core.compiled.scan_packets([], [1], 1, buffer, one, one, one, nothing, one.astype(np.uint32))


def test_wheels_contain_it(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("IKEANALYZE_CORE", "1")
    name = build_wheel(str(tmp_path))
    assert "-cp311-abi3-linux_" in name
    assert "ikeanalyze/_core.abi3.so" in zipfile.ZipFile(tmp_path / name).namelist()


def test_wheels_without_it_are_pure_python(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("IKEANALYZE_CORE", "0")
    name = build_wheel(str(tmp_path))
    assert name.endswith("-py3-none-any.whl")
    assert "ikeanalyze/_core.abi3.so" not in zipfile.ZipFile(tmp_path / name).namelist()


def test_doctor_and_verbose_say_that_it_is_in_use():
    def run(*arguments):
        command = [sys.executable, "-m", "ikeanalyze", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    checks = json.loads(run("doctor", "--format", "json").stdout)["checks"]
    assert {check["name"]: check["found"] for check in checks}["compiled core"] == "in use"
    assert "s with the compiled core" in run("report", "captures/psk-classic.pcap", "--verbose").stderr
