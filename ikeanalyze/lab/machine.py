"""Checks which requirements of the lab this machine meets."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ikeanalyze.lab import LabError, debian_tree
from ikeanalyze.lab.scenario import IKEV1_UNTIL

STRONGSWAN: Final = "strongSwan"
LIBRESWAN: Final = "libreswan"
FREERADIUS: Final = "FreeRADIUS"
CHARON: Final = "usr/lib/ipsec/charon"
#: Paths of libreswan's program.
PLUTO: Final = ("usr/libexec/ipsec/pluto", "usr/lib/ipsec/pluto")
#: Paths of FreeRADIUS' program.
RADIUS: Final = ("usr/sbin/freeradius", "usr/sbin/radiusd")
#: The first strongSwan with ML-KEM.
ML_KEM_SINCE: Final = (6, 0, 2)


@dataclass(frozen=True, slots=True)
class DaemonStack:
    """A daemon that can be run."""

    name: str  # STRONGSWAN, LIBRESWAN or FREERADIUS
    root: Path  # root of its system: / or a Debian tree
    program: str  # path of the program below the root
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def numbers(self) -> tuple[int, ...]:
        """The version as numbers, for comparisons."""
        return tuple(map(int, re.findall(r"\d+", self.version)[:3]))


@dataclass(frozen=True, slots=True)
class RequirementFinding:
    """A requirement or recommendation of the lab."""

    name: str
    there: bool | None  # whether it is available; None: only root can check
    found: str  # version or problem
    needed: bool  # whether the lab cannot run without it
    remedy: str | None = None  # how to install it; None: available or not installable


def _make_finding(
    name: str, available: str | bool | None, missing: str, *, needed: bool = False, remedy: str | None = None
) -> RequirementFinding:
    """`available`: the version or path, or whether it is available. `missing`: the text if it is not."""
    text = available if isinstance(available, str) else "yes"
    if available:
        return RequirementFinding(name, True, text, needed)
    return RequirementFinding(name, False, missing, needed, remedy)


def _roots() -> list[Path]:
    return [Path("/"), *(tree.place for tree in debian_tree.ALL if tree.place.is_dir())]


def _read_version(root: Path, program: str, option: str) -> str | None:
    """Return the version that a program prints; None if it is missing or fails."""
    path = root / program
    if not os.access(path, os.X_OK):
        return None
    command = [str(path), option] if root == Path("/") else ["chroot", str(root), f"/{program}", option]
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    number = re.search(r"\d+\.\d+(\.\d+)?\w*", completed.stdout + completed.stderr)
    return number[0] if number else None


def _find_stacks(name: str, programs: Sequence[str], option: str) -> Iterator[DaemonStack]:
    for root in _roots():
        for program in programs:
            if version := _read_version(root, program, option):
                yield DaemonStack(name, root, f"/{program}", version)


@cache
def find_strongswan() -> tuple[DaemonStack, ...]:
    """Return the strongSwan stacks, the installed one first."""
    return tuple(_find_stacks(STRONGSWAN, [CHARON], "--version"))


@cache
def find_libreswan() -> tuple[DaemonStack, ...]:
    """Return the libreswan stacks, the installed one first."""
    return tuple(_find_stacks(LIBRESWAN, PLUTO, "--version"))


@cache
def find_freeradius() -> DaemonStack | None:
    """Return FreeRADIUS, preferably the installed one."""
    return next(_find_stacks(FREERADIUS, RADIUS, "-v"), None)


def list_missing_trees() -> list[debian_tree.DebianTree]:
    """Return the Debian chroots that provide the daemons this machine lacks."""
    installed = {stack.numbers for stack in find_strongswan() if stack.root == Path("/")}
    wanted = [debian_tree.NEW]
    if not any(numbers < IKEV1_UNTIL for numbers in installed):
        wanted.append(debian_tree.OLD)
    if not any(stack.root == Path("/") for stack in find_libreswan()):
        wanted.append(debian_tree.LIBRESWAN)
    return wanted


def find_stack(name: str, *, ml_kem: bool, ikev1: bool) -> DaemonStack:
    """Return the first stack with the required features: "strongswan", "libreswan", or a version, "strongswan-5.9".

    Raises:
        LabError: no such stack.
    """
    family, _, version = name.partition("-")
    wanted = tuple(map(int, version.split("."))) if version else ()
    for stack in find_libreswan() if family == "libreswan" else find_strongswan():
        has_features = (not ml_kem or stack.numbers >= ML_KEM_SINCE) and (not ikev1 or stack.numbers < IKEV1_UNTIL)
        if stack.numbers[: len(wanted)] == wanted if wanted else family == "libreswan" or has_features:
            return stack
    if not wanted and ml_kem:
        name += " of 6.0.2 or later, which ML-KEM needs,"
    elif not wanted and ikev1:
        name += " before 6, which IKEv1 needs,"
    available = ", ".join(dict.fromkeys(map(str, (*find_strongswan(), *find_libreswan())))) or "none"
    remedy = "as root, ikeanalyze lab prepare makes trees with it"
    raise LabError(f"{name} is not on this machine (there are: {available}): {remedy}")


def _in_namespace(*commands: Sequence[str]) -> bool:
    """Whether the commands succeed in a temporary network namespace."""
    script = " && ".join(" ".join(command) for command in commands)
    command = ["unshare", "--net", "sh", "-c", script]
    try:
        return subprocess.run(command, capture_output=True, timeout=20, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


#: Other programs, their packages, and whether scenarios need them (only trees need debootstrap).
_PROGRAMS: Final = (
    ("ip", "iproute2", True),
    ("dumpcap", "wireshark-common", True),
    ("editcap", "wireshark-common", True),
    ("nsenter", "util-linux", True),
    ("unshare", "util-linux", True),
    ("sysctl", "procps", True),
    ("debootstrap", "debootstrap", False),
)
_ROOT_ONLY: Final = "only root can find out"
_DUMMY: Final = ("ip", "link", "add", "probe0", "type", "veth", "peer", "name", "probe1")


@cache
def has_netem() -> bool:
    """Whether the kernel has netem, to delay and lose frames."""
    return _in_namespace(_DUMMY, ("tc", "qdisc", "add", "dev", "probe0", "root", "netem", "delay", "1ms"))


@cache
def has_kernel_esp() -> bool:
    """Whether the kernel has ESP; otherwise strongSwan's kernel-libipsec is used, with all packets in UDP."""
    state = "ip xfrm state add src 10.0.0.1 dst 10.0.0.2 proto esp spi 1 mode tunnel aead 'rfc4106(gcm(aes))'"
    return _in_namespace((state, "0x" + "11" * 20, "128"))


@cache
def has_ingress_drop() -> bool:
    """Whether nftables can drop frames after a capture: hook `ingress`, and random numbers."""
    chain = "'add chain netdev t c { type filter hook ingress device probe0 priority 0; }'"
    rule = "'add rule netdev t c numgen random mod 100 < 5 drop'"
    return _in_namespace(_DUMMY, ("nft", "add", "table", "netdev", "t"), ("nft", chain), ("nft", rule))


def check_requirements() -> Iterator[RequirementFinding]:
    """Check all requirements, one after another."""
    root = os.geteuid() == 0
    yield _make_finding("root", root, "no", needed=True, remedy="run it with sudo")
    yield _make_finding("network namespaces", _in_namespace(_DUMMY), "not allowed here", needed=True)
    yield from _stacks()
    for program, package, needed in _PROGRAMS:
        path = shutil.which(program)
        yield _make_finding(program, path, "not there", needed=needed, remedy=f"apt install {package}")
    esp = root and has_kernel_esp()
    if root:
        yield _make_finding("nft", has_ingress_drop(), "none with hook ingress", remedy="apt install nftables")
        yield _make_finding("netem", has_netem(), "not in this kernel: our own relay is used")
        yield _make_finding("ESP in the kernel", esp, "no: strongSwan's own is used, libreswan has none")
    else:
        yield from (RequirementFinding(name, None, _ROOT_ONLY, False) for name in ("nft", "netem", "ESP in the kernel"))
    tun = Path("/dev/net/tun").exists()
    yield RequirementFinding("/dev/net/tun", tun or esp, "yes" if tun else "not there", not esp)
    for module in ("vici", "psutil"):
        installed, remedy = find_spec(module) is not None, "pip install 'ikeanalyze[lab]'"
        yield _make_finding(module, installed, "not installed", needed=True, remedy=remedy)


def _stacks() -> Iterator[RequirementFinding]:
    prepare = "ikeanalyze lab prepare makes a Debian tree with it"
    if os.geteuid():  # chroot needs root
        for name in (STRONGSWAN, "ML-KEM", "IKEv1", LIBRESWAN, FREERADIUS):
            yield RequirementFinding(name, None, _ROOT_ONLY, False)
        return
    strongswans = find_strongswan()
    strongswan_remedy = f"apt install strongswan-charon, or {prepare}"
    yield _make_finding(STRONGSWAN, _list_versions(strongswans), "not there", needed=True, remedy=strongswan_remedy)
    for feature, needs, fitting in (
        ("ML-KEM", "6.0.2 or later", [stack for stack in strongswans if stack.numbers >= ML_KEM_SINCE]),
        ("IKEv1", "before 6", [stack for stack in strongswans if stack.numbers < IKEV1_UNTIL]),
    ):
        version = f"strongSwan {fitting[0].version}" if fitting else None
        yield _make_finding(feature, version, f"needs strongSwan {needs}", remedy=prepare)
    yield _make_finding(LIBRESWAN, _list_versions(find_libreswan()), "not there", remedy=prepare)
    servers = filter(None, [find_freeradius()])
    yield _make_finding(
        FREERADIUS, _list_versions(servers), "not there", remedy=f"apt install freeradius, or {prepare}"
    )


def _list_versions(stacks: Iterable[DaemonStack]) -> str:
    return ", ".join(
        stack.version if stack.root == Path("/") else f"{stack.version} in the tree {stack.root.name}"
        for stack in stacks
    )


def get_date() -> str:
    """Return the current UTC date for manifests."""
    return time.strftime("%Y-%m-%d", time.gmtime())
