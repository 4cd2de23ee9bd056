import gzip
import os
import subprocess
from pathlib import Path

import pytest

from ikeanalyze.lab import LabError, debian_tree, machine
from ikeanalyze.lab.machine import LIBRESWAN, STRONGSWAN, DaemonStack

OWN, NEW, OLD = (
    DaemonStack(STRONGSWAN, Path("/"), "/charon", "5.9.8"),
    DaemonStack(STRONGSWAN, Path("/forky"), "/charon", "6.1.0"),
    DaemonStack(STRONGSWAN, Path("/bookworm"), "/charon", "5.9.8"),
)
PLUTO = DaemonStack(LIBRESWAN, Path("/forky-libreswan"), "/pluto", "5.2")


@pytest.fixture
def stacks(monkeypatch):
    """A machine with these daemons."""

    def has(*found):
        monkeypatch.setattr(
            machine, "find_strongswan", lambda: tuple(item for item in found if item.name == STRONGSWAN)
        )
        monkeypatch.setattr(machine, "find_libreswan", lambda: tuple(item for item in found if item.name == LIBRESWAN))

    return has


@pytest.mark.parametrize(
    ("name", "ml_kem", "ikev1", "wanted"),
    [
        ("strongswan", False, False, OWN),
        ("strongswan", True, False, NEW),
        ("strongswan", False, True, OWN),
        ("strongswan-6", False, False, NEW),
        ("strongswan-6.1", True, False, NEW),
        ("strongswan-5.9", False, False, OWN),
        ("strongswan-5.9", True, False, OWN),  # who names a version gets it
        ("libreswan", False, False, PLUTO),
        ("libreswan-5", False, False, PLUTO),
    ],
)
def test_the_first_that_can_what_is_needed(stacks, name, ml_kem, ikev1, wanted):
    stacks(OWN, NEW, OLD, PLUTO)
    assert machine.find_stack(name, ml_kem=ml_kem, ikev1=ikev1) == wanted


@pytest.mark.parametrize(
    ("name", "ml_kem", "ikev1", "said"),
    [
        ("strongswan", True, False, "6.0.2 or later, which ML-KEM needs"),
        ("strongswan-6", False, False, "strongswan-6 is not on this machine"),
        ("libreswan", False, False, "libreswan is not on this machine"),
    ],
)
def test_what_is_not_there_is_said_with_what_is(stacks, name, ml_kem, ikev1, said):
    stacks(OWN)
    with pytest.raises(LabError) as error:
        machine.find_stack(name, ml_kem=ml_kem, ikev1=ikev1)
    assert said in str(error.value)
    assert "strongSwan 5.9.8" in str(error.value)
    assert "lab prepare" in str(error.value)


def test_ikev1_needs_an_old_strongswan(stacks):
    stacks(NEW)
    with pytest.raises(LabError, match="before 6, which IKEv1 needs"):
        machine.find_stack("strongswan", ml_kem=False, ikev1=True)


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        ((), [debian_tree.NEW, debian_tree.OLD, debian_tree.LIBRESWAN]),
        ((OWN,), [debian_tree.NEW, debian_tree.LIBRESWAN]),
        ((NEW, OLD, PLUTO), [debian_tree.NEW, debian_tree.OLD, debian_tree.LIBRESWAN]),  # in trees already
        ((DaemonStack(LIBRESWAN, Path("/"), "/pluto", "4.10"),), [debian_tree.NEW, debian_tree.OLD]),
    ],
)
def test_trees_for_what_the_machine_has_not_of_its_own(stacks, own, wanted):
    stacks(*own)
    assert machine.list_missing_trees() == wanted


def test_versions_are_compared_as_numbers():
    assert DaemonStack(STRONGSWAN, Path("/"), "/x", "6.0.10dr1").numbers == (6, 0, 10)
    assert DaemonStack(STRONGSWAN, Path("/"), "/x", "6.0.10").numbers > machine.ML_KEM_SINCE


def test_a_program_says_its_version(tmp_path):
    program = tmp_path / "said"
    program.write_text("#!/bin/sh\necho Linux strongSwan 6.1.0dr2 of $1\n")
    assert machine._read_version(Path("/"), str(program).lstrip("/"), "--version") is None  # it may not be run
    program.chmod(0o755)
    assert machine._read_version(Path("/"), str(program).lstrip("/"), "--version") == "6.1.0dr2"
    assert machine._read_version(Path("/"), "no/such/program", "--version") is None


def test_what_is_found_is_so():
    result = {row.name: row for row in machine.check_requirements()}
    assert result["root"].there == (os.geteuid() == 0)
    assert all(row.there or row.remedy or not row.needed or row.name == "network namespaces" for row in result.values())
    for stack in machine.find_strongswan():
        if stack.root == Path("/"):
            stdout = subprocess.run([stack.program, "--version"], capture_output=True, text=True).stdout
            assert f"strongSwan {stack.version}" in stdout
    config = Path("/proc/config.gz")
    if config.exists() and result["root"].there:
        enabled = gzip.decompress(config.read_bytes()).decode().splitlines()
        for name, option in (("ESP in the kernel", "CONFIG_INET_ESP"), ("netem", "CONFIG_NET_SCH_NETEM")):
            if f"{option}=m" not in enabled:  # a module is there or not
                assert result[name].there == (f"{option}=y" in enabled)
