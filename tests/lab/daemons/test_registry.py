import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from ikeanalyze.lab import LabError, debian_tree
from ikeanalyze.lab.daemons import registry, strongswan
from ikeanalyze.lab.daemons.installation import DaemonStack, read_version
from ikeanalyze.lab.daemons.registry import check_stacks, find_installed, get_stack
from ikeanalyze.lab.daemons.stack import IkeStack
from ikeanalyze.lab.logs.summary import DaemonLogSummary
from ikeanalyze.lab.scenario.expansion import expand_cases

OWN, NEW, OLD = (
    DaemonStack("strongSwan", Path("/"), "/charon", "5.9.8"),
    DaemonStack("strongSwan", Path("/forky"), "/charon", "6.1.0"),
    DaemonStack("strongSwan", Path("/bookworm"), "/charon", "5.9.8"),
)
PLUTO = DaemonStack("libreswan", Path("/forky-libreswan"), "/pluto", "5.2")
ML_KEM = {"ike": {"proposals": "aes256-sha256-ecp256-ke1_mlkem768"}}
IKEV1 = {"ike": {"version": 1}}


@pytest.fixture
def installed(monkeypatch):
    """A machine with these daemons."""

    def has(*found):
        by_title = {title: tuple(each for each in found if each.name == title) for title in ("strongSwan", "libreswan")}
        for stack in ("strongswan", "libreswan", "openiked"):
            monkeypatch.setattr(type(get_stack(stack)), "find", lambda self: by_title.get(self.title, ()))

    return has


def case(stack: str, data: dict | None = None):
    return expand_cases({"initiator": {"stack": stack}} | (data or {}), "x", "x")[0]


@pytest.mark.parametrize(
    ("name", "data", "wanted"),
    [
        ("strongswan", {}, OWN),
        ("strongswan", ML_KEM, NEW),
        ("strongswan", IKEV1, OWN),
        ("strongswan-6", {}, NEW),
        ("strongswan-6.1", ML_KEM, NEW),
        ("strongswan-5.9", {}, OWN),
        ("strongswan-5.9", ML_KEM, OWN),  # a named version is used whatever it supports
        ("libreswan", {}, PLUTO),
        ("libreswan-5", {}, PLUTO),
    ],
)
def test_the_first_installation_with_the_required_features_is_used(installed, name, data, wanted):
    installed(OWN, NEW, OLD, PLUTO)
    assert find_installed("initiator", case(name, data)) == wanted


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("strongswan", ML_KEM, "6.0.2 or later, which ML-KEM needs"),
        ("strongswan-6", {}, "strongswan-6 is not on this machine"),
        ("libreswan", {}, "libreswan is not on this machine"),
    ],
)
def test_the_error_for_a_missing_installation_lists_those_that_exist(installed, name, data, text):
    installed(OWN)
    with pytest.raises(LabError) as error:
        find_installed("initiator", case(name, data))
    assert text in str(error.value)
    assert "strongSwan 5.9.8" in str(error.value)
    assert "lab prepare" in str(error.value)


def test_ikev1_needs_an_old_strongswan(installed):
    installed(NEW)
    with pytest.raises(LabError, match="before 6, which IKEv1 needs"):
        find_installed("initiator", case("strongswan", IKEV1))


@pytest.mark.parametrize(
    ("own", "strongswan_trees", "libreswan_trees"),
    [
        ((), (debian_tree.NEW, debian_tree.OLD), (debian_tree.LIBRESWAN,)),
        ((OWN,), (debian_tree.NEW,), (debian_tree.LIBRESWAN,)),
        ((NEW, OLD, PLUTO), (debian_tree.NEW, debian_tree.OLD), (debian_tree.LIBRESWAN,)),  # in trees already
        ((DaemonStack("libreswan", Path("/"), "/pluto", "4.10"),), (debian_tree.NEW, debian_tree.OLD), ()),
    ],
)
def test_trees_are_made_for_daemons_that_the_system_itself_lacks(installed, own, strongswan_trees, libreswan_trees):
    installed(*own)
    assert tuple(get_stack("strongswan").list_missing_trees()) == strongswan_trees
    assert tuple(get_stack("libreswan").list_missing_trees()) == libreswan_trees


def test_versions_are_compared_as_numbers():
    assert DaemonStack("strongSwan", Path("/"), "/x", "6.0.10dr1").numbers == (6, 0, 10)
    assert DaemonStack("strongSwan", Path("/"), "/x", "6.0.10").numbers > strongswan.ML_KEM_SINCE


def test_the_version_is_what_a_program_prints(tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho Linux strongSwan 6.1.0dr2 of $1\n")
    path = str(program).lstrip("/")
    assert read_version(Path("/"), path, "--version") is None  # not executable
    program.chmod(0o755)
    assert read_version(Path("/"), path, "--version") == "6.1.0dr2"
    assert read_version(Path("/"), "no/such/program", "--version") is None


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (
            {"initiator": {"stack": "racoon"}},
            ["initiator.stack: no stack racoon", "strongswan, libreswan, openiked, ikeanalyze, command"],
        ),
        ({"ike": {"version": 1}, "responder": {"stack": "libreswan"}}, ["responder.stack", "ike.version = 2"]),
        (
            {"ike": {"version": 1}, "responder": {"stack": "strongswan-6.1"}},
            ["responder.stack = strongswan-6.1", "IKEv1"],
        ),
        ({"responder": {"stack": "libreswan"}, "initiator": {"auth": "eap-tls"}}, ["eap-tls", "strongSwan"]),
        ({"responder": {"stack": "libreswan"}, **ML_KEM}, ["responder.stack = libreswan", "ke1_mlkem768"]),
        (
            {"responder": {"stack": "libreswan"}, "ike": {"cookie_threshold": 1}},
            ["ike.cookie_threshold", "responder.stack"],
        ),
        ({"initiator": {"stack": "libreswan-5"}, "then": ["ping", "rekey-ike"]}, ["rekey-ike", "strongswan"]),
        ({"responder": {"stack": "libreswan"}, "then": ["rekey-child"]}, ["rekey-child", "responder.stack"]),
        ({"initiator": {"stack": "libreswan"}, "abandoned": 1}, ["abandoned", "strongswan"]),
        (
            {"initiator": {"host": "a"}, "responder": {"host": "b", "stack": "libreswan"}},
            ["responder.host needs responder.stack = strongswan"],
        ),
        ({"initiator": {"stack": "libreswan", "start": "trap"}}, ["initiator.start = trap", "initiator.stack"]),
    ],
)
def test_the_error_for_an_unsupported_setting_names_the_key(data, parts):
    with pytest.raises(LabError) as error:
        check_stacks(expand_cases(data, "x", "x")[0])
    assert all(part in str(error.value) for part in parts), error.value


def test_a_root_file_system_that_a_side_names(tmp_path):
    program = tmp_path / "usr" / "lib" / "ipsec" / "charon"
    data = {"initiator": {"root": str(tmp_path)}}
    with pytest.raises(LabError, match=r"strongswan is not in .* \(initiator\.root\)"):
        find_installed("initiator", expand_cases(data, "x", "x")[0])
    assert not program.exists()


class VendorStack(IkeStack):
    """A stack of another distribution."""

    name = "vendor"
    title = "Vendor"

    def find(self):
        return [DaemonStack(self.title, Path("/"), "/opt/vendor/iked", "3.1")]

    def start(self, setup):
        raise NotImplementedError

    def parse_log(self, lines):
        return DaemonLogSummary()


class BrokenStack:
    """Not a stack."""

    def __init__(self):
        raise RuntimeError("the licence has expired")


@pytest.fixture
def plugins(monkeypatch):
    """Installed distributions with these entry points."""

    def have(**classes):
        entries = EntryPoints(
            EntryPoint(name, f"{__name__}:{each.__name__}", registry.GROUP) for name, each in classes.items()
        )
        monkeypatch.setattr(registry, "entry_points", lambda **selection: entries.select(**selection))
        get_stack.cache_clear()

    assert __name__ in sys.modules
    yield have
    get_stack.cache_clear()


def test_an_entry_point_adds_a_stack(plugins):
    plugins(vendor=VendorStack)
    assert registry.list_stack_names()[-1] == "vendor"
    assert str(find_installed("initiator", case("vendor-3"))) == "Vendor 3.1"
    with pytest.raises(LabError, match=r"vendor-4 is not on this machine \(there are: .*Vendor 3\.1"):
        find_installed("initiator", case("vendor-4"))


def test_a_plugin_does_not_replace_a_stack_of_the_lab(plugins):
    plugins(strongswan=VendorStack)
    assert get_stack("strongswan").title == "strongSwan"


@pytest.mark.parametrize(
    ("name", "plugin", "text"), [("broken", BrokenStack, "the licence has expired"), ("other", VendorStack, "IkeStack")]
)
def test_a_plugin_that_cannot_be_loaded_is_one_line_and_stops_no_other(plugins, name, plugin, text):
    plugins(**{name: plugin})
    with pytest.raises(LabError, match=text):
        get_stack(name)
    assert get_stack("strongswan").name == "strongswan"
