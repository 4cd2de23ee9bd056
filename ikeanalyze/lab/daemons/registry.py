"""Finds stacks by name: those of the lab, and plug-ins of other distributions.

A distribution adds a stack as an entry point of the group `ikeanalyze.lab_stacks`: name = "module:Class". The class is
a subclass of `IkeStack` whose `name` is that of the entry point.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from ikeanalyze.lab import LabError
from ikeanalyze.lab.daemons.aka.initiator import OwnStack
from ikeanalyze.lab.daemons.command import CommandStack
from ikeanalyze.lab.daemons.installation import DaemonStack
from ikeanalyze.lab.daemons.libreswan import LibreswanStack
from ikeanalyze.lab.daemons.openiked import OpenikedStack
from ikeanalyze.lab.daemons.place import SshPlace
from ikeanalyze.lab.daemons.stack import IkeStack
from ikeanalyze.lab.daemons.strongswan import StrongswanStack
from ikeanalyze.lab.scenario.case import ScenarioCase
from ikeanalyze.lab.scenario.settings import ROLES

#: Entry points of plug-ins.
GROUP: Final = "ikeanalyze.lab_stacks"
_BUILT_IN: Final[Mapping[str, IkeStack]] = {
    stack.name: stack for stack in (StrongswanStack(), LibreswanStack(), OpenikedStack(), OwnStack(), CommandStack())
}


def list_stack_names() -> list[str]:
    """Return the names of all stacks, those of plug-ins last."""
    return list(dict.fromkeys((*_BUILT_IN, *(entry.name for entry in entry_points(group=GROUP)))))


@cache
def get_stack(name: str) -> IkeStack:
    """Return a stack by its name. Names of the lab's own stacks cannot be replaced by plug-ins.

    Raises:
        LabError: no such stack, or its plug-in cannot be loaded.
    """
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    for entry in entry_points(group=GROUP, name=name):
        return _load(entry)
    raise LabError(f"no stack {name}; there are {', '.join(list_stack_names())}")


def list_stacks() -> list[IkeStack]:
    """Return all stacks.

    Raises:
        LabError: a plug-in cannot be loaded.
    """
    return [get_stack(name) for name in list_stack_names()]


def _load(entry: EntryPoint) -> IkeStack:
    """Load a plug-in, which may raise anything."""
    try:
        stack = entry.load()()
    except Exception as error:
        raise LabError(f"the stack {entry.name} ({entry.value}) cannot be loaded: {error}") from error
    if not isinstance(stack, IkeStack) or stack.name != entry.name:
        raise LabError(f"the stack {entry.name} ({entry.value}) is not a subclass of IkeStack with this name")
    return stack


def check_stacks(case: ScenarioCase) -> None:
    """Check that the stacks of a case support its settings.

    Raises:
        LabError: no such stack, or a setting that it does not support; the text has the key.
    """
    for role in ROLES:
        try:
            stack = get_stack(case.stack(role))
        except LabError as error:
            raise LabError(f"{role}.stack: {error}") from None
        if case.side(role).command and stack.name != CommandStack.name:
            raise LabError(f"{role}.command needs {role}.stack = {CommandStack.name}")
        if case.uses_ssh and not stack.over_ssh:
            able = " or ".join(each.name for each in list_stacks() if each.over_ssh)
            raise LabError(f"{role}.host needs {role}.stack = {able}")
        for conflict in stack.list_conflicts(role, case):
            raise LabError(conflict)


def find_installed(role: str, case: ScenarioCase) -> DaemonStack:
    """Return the first installation that can run a side of a case; if it names a version, the first of that version.

    Raises:
        LabError: no such installation.
    """
    stack = get_stack(case.stack(role))
    if installed := _choose(stack.find_for(role, case), role, case):
        return installed
    name, _, version = case.side(role).stack.partition("-")
    if root := case.side(role).root:
        raise LabError(f"{case.side(role).stack} is not in {root} ({role}.root)")
    if version:
        name += f"-{version}"
    elif requirement := stack.describe_requirement(role, case):
        name += f" {requirement}"
    available = ", ".join(dict.fromkeys(str(each) for kind in list_stacks() for each in kind.find())) or "none"
    remedy = ": as root, ikeanalyze lab prepare makes trees with it" if stack.trees else ""
    raise LabError(f"{name} is not on this machine (there are: {available}){remedy}")


def find_installed_at(place: SshPlace, case: ScenarioCase) -> DaemonStack:
    """Return the installation on a machine over SSH that can run a side, as `find_installed` does for this machine.

    Raises:
        LabError: no such installation.
    """
    role = place.name
    stack = get_stack(case.stack(role))
    installations = place.find_installations(
        stack.title, stack.programs, stack.version_option, case.side(role).root or "/"
    )
    if installed := _choose(installations, role, case):
        return installed
    where = f" in {case.side(role).root} ({role}.root)" if case.side(role).root else ""
    wanted = f"{case.side(role).stack} {stack.describe_requirement(role, case)}".strip()
    available = ", ".join(map(str, installations)) or "none"
    raise place.host.make_error(f"{wanted} is not there{where} (there are: {available})")


def _choose(installations: Iterable[DaemonStack], role: str, case: ScenarioCase) -> DaemonStack | None:
    stack, version = get_stack(case.stack(role)), case.side(role).stack.partition("-")[2]
    wanted = tuple(map(int, version.split("."))) if version else ()
    for installed in installations:
        if installed.numbers[: len(wanted)] == wanted if wanted else stack.supports(installed, role, case):
            return installed
    return None
