"""The interface between the lab and an IKE implementation.

Each implementation is a subclass of `IkeStack` in a module of its own. `registry` finds those of this package, and
those that other distributions declare as entry points of the group `ikeanalyze.lab_stacks`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import ClassVar

from ikeanalyze.lab import LabError
from ikeanalyze.lab.daemons.daemon import IkeDaemon
from ikeanalyze.lab.daemons.installation import DaemonStack, find_installations, list_roots, list_versions
from ikeanalyze.lab.daemons.peer_config import CaseCredentials
from ikeanalyze.lab.daemons.place import DaemonPlace, NetnsPlace
from ikeanalyze.lab.debian_tree import DebianTree
from ikeanalyze.lab.logs.summary import DaemonLogSummary
from ikeanalyze.lab.network.namespaces import Netns, NetnsSandbox
from ikeanalyze.lab.network.topology import CaseAddresses
from ikeanalyze.lab.requirement import RequirementFinding, make_finding
from ikeanalyze.lab.scenario.case import ScenarioCase

#: How `lab doctor` and error messages say where a missing daemon comes from.
PREPARE_REMEDY = "ikeanalyze lab prepare makes a Debian tree with it"


class LoggedKeys(IntEnum):
    """Which keys a daemon's log has; the log of the side with the higher value provides the keys of a recording."""

    NONE = 0
    ESTABLISHED = 1  # those of established IKE SAs only, without salts of AEAD ciphers
    ALL = 2  # of each epoch of each IKE SA, and of Child SAs


@dataclass(frozen=True, slots=True)
class SideSetup:
    """Everything that a stack needs to run one side of a case."""

    sandbox: NetnsSandbox  # starts its processes and ends them
    place: DaemonPlace  # where it runs
    installed: DaemonStack
    case: ScenarioCase
    network: CaseAddresses
    credentials: CaseCredentials
    peer: "IkeStack"  # the stack of the other side
    kernel_esp: bool  # whether the kernel has ESP
    log_keys: bool = True  # whether the log is to have keys; if not, logging must cost as little as possible

    @property
    def role(self) -> str:
        """Either "initiator" or "responder"."""
        return self.place.name

    @property
    def host(self) -> Netns:
        """Its network namespace, and a folder for its files.

        Raises:
            LabError: it runs over SSH; stacks without `over_ssh` need not handle this.
        """
        if not isinstance(self.place, NetnsPlace):
            raise LabError(f"{self.role}.host needs another stack")
        return self.place.host


class IkeStack(ABC):
    """An IKE implementation that the lab can run."""

    #: In scenarios: lower case letters, digits and underscores.
    name: ClassVar[str]
    #: In manifests and messages.
    title: ClassVar[str]
    #: Possible paths of its program below a root, without the leading slash, and the option that prints its version.
    programs: ClassVar[tuple[str, ...]] = ()
    version_option: ClassVar[str] = "--version"
    #: Debian trees that have it, for machines that lack it.
    trees: ClassVar[tuple[DebianTree, ...]] = ()
    #: Names of its rows in `lab doctor`; None: its title.
    requirements: ClassVar[tuple[str, ...] | None] = None
    #: Keys in its log.
    logged_keys: ClassVar[LoggedKeys] = LoggedKeys.NONE
    #: Whether it requests its peer's certificate with CERTREQ; otherwise peers are configured to send it anyway.
    requests_certificates: ClassVar[bool] = True
    #: Whether it is an IKE daemon, which can be initiator and responder: the matrix runs each with each.
    is_daemon: ClassVar[bool] = True
    #: Whether it can run on a machine over SSH: `start` uses only `SideSetup.place`, not `host`.
    over_ssh: ClassVar[bool] = False

    @abstractmethod
    def start(self, setup: SideSetup) -> IkeDaemon:
        """Start and configure one side of a case, in its network namespace.

        Raises:
            LabError: it does not start or refuses its configuration; without secrets.
        """

    @abstractmethod
    def parse_log(self, lines: Iterable[str]) -> DaemonLogSummary | None:
        """Return the messages that a log reports as sent, for the manifest; None if it does not report them."""

    def find(self) -> Sequence[DaemonStack]:
        """Return its installations: in this system, then in its Debian trees."""
        return _find_installations(self.title, self.programs, self.version_option, tuple(list_roots(self.trees)))

    def find_for(self, role: str, case: ScenarioCase) -> Sequence[DaemonStack]:
        """Return the installations for a side: in the root file system that it names, or all."""
        root = case.side(role).root
        if not root:
            return self.find()
        return _find_installations(self.title, self.programs, self.version_option, (Path(root).absolute(),))

    def list_conflicts(self, role: str, case: ScenarioCase) -> Iterable[str]:  # noqa: ARG002 - of subclasses
        """Return the settings that it does not support in a role: the key, and what it needs instead."""
        return ()

    def supports(self, installed: DaemonStack, role: str, case: ScenarioCase) -> bool:  # noqa: ARG002 - of subclasses
        """Whether an installation can run a side of a case, for scenarios that name no version."""
        return True

    def describe_requirement(self, role: str, case: ScenarioCase) -> str:  # noqa: ARG002 - of subclasses
        """Return which installations `supports` accepts, such as "of 6.0.2 or later, which ML-KEM needs,"; "": all."""
        return ""

    def list_missing_trees(self) -> Sequence[DebianTree]:
        """Return the Debian trees for `lab prepare` on this machine."""
        return () if any(not installed.in_tree for installed in self.find()) else self.trees

    def check(self) -> Iterator[RequirementFinding]:
        """Check what is available, for `lab doctor`; as root."""
        remedy = PREPARE_REMEDY if self.trees else None
        yield make_finding(self.title, list_versions(self.find()), "not there", remedy=remedy)


def list_strongswan_settings(role: str, case: ScenarioCase) -> Iterator[str]:
    """Return the settings of a side that only strongSwan supports, for `list_conflicts` of other stacks."""
    settings = case.settings
    if role == "responder" and settings.ike.cookie_threshold:
        yield "ike.cookie_threshold needs responder.stack = strongswan"
    if role == "initiator" and settings.abandoned:
        yield "abandoned needs initiator.stack = strongswan"
    if role == "initiator" and settings.initiator.start == "trap":
        yield "initiator.start = trap needs initiator.stack = strongswan"
    for step in settings.then:
        if step not in ("ping", "delete"):
            yield f"then: {step} needs {role}.stack = strongswan"


@cache
def _find_installations(
    title: str, programs: tuple[str, ...], option: str, roots: tuple[Path, ...]
) -> tuple[DaemonStack, ...]:
    return tuple(find_installations(title, programs, option, roots))
