"""Checks which requirements of the lab this machine meets."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ikeanalyze.io.suggestions import advise_install
from ikeanalyze.lab import LabError, debian_tree
from ikeanalyze.lab.daemons.installation import DaemonStack, find_installations, list_roots, list_versions
from ikeanalyze.lab.daemons.registry import get_stack, list_stack_names, list_stacks
from ikeanalyze.lab.daemons.stack import PREPARE_REMEDY
from ikeanalyze.lab.requirement import RequirementFinding, make_finding

FREERADIUS: Final = "FreeRADIUS"
HOSTAPD: Final = "hostapd"
#: Paths of FreeRADIUS' program.
RADIUS: Final = ("usr/sbin/freeradius", "usr/sbin/radiusd")
#: Path of hostapd.
_HOSTAPD: Final = ("usr/sbin/hostapd",)


@cache
def find_freeradius() -> DaemonStack | None:
    """Return FreeRADIUS, preferably the installed one."""
    return next(find_installations(FREERADIUS, RADIUS, "-v", list_roots(debian_tree.ALL)), None)


@cache
def find_hostapd() -> DaemonStack | None:
    """Return hostapd, preferably the installed one."""
    return next(find_installations(HOSTAPD, _HOSTAPD, "-v", list_roots(debian_tree.ALL)), None)


def list_missing_trees() -> list[debian_tree.DebianTree]:
    """Return the Debian chroots that provide the daemons this machine lacks.

    Raises:
        LabError: a plug-in with a stack cannot be loaded.
    """
    return list(dict.fromkeys(tree for stack in list_stacks() for tree in stack.list_missing_trees()))


def _find_obstacle(*commands: Sequence[str]) -> str | None:
    """Why the commands fail in a temporary network namespace; None: they succeed."""
    script = " && ".join(" ".join(command) for command in commands)
    command = ["unshare", "--net", "sh", "-c", script]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=20, check=False)
    except OSError as error:
        return f"unshare: {error.strerror}"
    except subprocess.TimeoutExpired:
        return "no answer"
    if done.returncode == 0:
        return None
    return (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]


def _try_in_namespace(*commands: Sequence[str]) -> bool:
    """Whether the commands succeed in a temporary network namespace."""
    return _find_obstacle(*commands) is None


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
#: What a container often withholds; the capabilities alone are not enough where mounting is forbidden, too.
_NAMESPACES_REMEDY: Final = (
    "the lab needs CAP_SYS_ADMIN and CAP_NET_ADMIN; a container has them with --privileged (docker, podman)"
)
_DUMMY: Final = ("ip", "link", "add", "probe0", "type", "veth", "peer", "name", "probe1")


@cache
def has_netem() -> bool:
    """Whether the kernel has netem, to delay and lose frames."""
    return _try_in_namespace(_DUMMY, ("tc", "qdisc", "add", "dev", "probe0", "root", "netem", "delay", "1ms"))


@cache
def has_kernel_esp() -> bool:
    """Whether the kernel has ESP; otherwise strongSwan's kernel-libipsec is used, with all packets in UDP."""
    state = "ip xfrm state add src 10.0.0.1 dst 10.0.0.2 proto esp spi 1 mode tunnel aead 'rfc4106(gcm(aes))'"
    return _try_in_namespace((state, "0x" + "11" * 20, "128"))


@cache
def has_ingress_drop() -> bool:
    """Whether nftables can drop frames after a capture: hook `ingress`, and numbers of frames."""
    chain = "'add chain netdev t c { type filter hook ingress device probe0 priority 0; }'"
    rule = "'add rule netdev t c numgen inc mod 100 { 3, 5-7 } drop'"
    return _try_in_namespace(_DUMMY, ("nft", "add", "table", "netdev", "t"), ("nft", chain), ("nft", rule))


def check_requirements() -> Iterator[RequirementFinding]:
    """Check all requirements, one after another."""
    yield make_finding("root", os.geteuid() == 0, "no", needed=True, remedy="run it with sudo")
    yield from _check_stacks()
    for program, package, needed in _PROGRAMS:
        path = shutil.which(program)
        yield make_finding(program, path, "not there", needed=needed, remedy=f"apt install {package}")
    yield (namespaces := _check_namespaces())
    esp = bool(namespaces.there) and has_kernel_esp()
    if namespaces.there:
        yield make_finding("nft", has_ingress_drop(), "none with hook ingress", remedy="apt install nftables")
        yield make_finding("netem", has_netem(), "not in this kernel: our own relay is used")
        yield make_finding("ESP in the kernel", esp, "no: strongSwan's own is used, libreswan has none")
    else:  # their absence and that of the permission to look for them are the same to us
        why = f"found out only with {namespaces.name}" if namespaces.there is False else namespaces.found
        yield from (RequirementFinding(name, None, why, False) for name in ("nft", "netem", "ESP in the kernel"))
    tun = Path("/dev/net/tun").exists()
    yield RequirementFinding("/dev/net/tun", tun or esp, "yes" if tun else "not there", not esp)
    for module in ("vici", "psutil"):
        installed, remedy = find_spec(module) is not None, advise_install(module)
        yield make_finding(module, installed, "not installed", needed=True, remedy=remedy)


def _check_namespaces() -> RequirementFinding:
    name = "network namespaces"
    if os.geteuid() != 0:
        return RequirementFinding(name, None, _ROOT_ONLY, True)
    if missing := [program for program in ("unshare", "ip") if shutil.which(program) is None]:
        return RequirementFinding(name, None, f"only {' and '.join(missing)} can find out", True)
    obstacle = _find_obstacle(_DUMMY)
    return make_finding(name, obstacle is None, f"{obstacle}", needed=True, remedy=_NAMESPACES_REMEDY)


def _check_stacks() -> Iterator[RequirementFinding]:
    root = os.geteuid() == 0  # chroot needs root
    for name in list_stack_names():
        try:
            stack = get_stack(name)
        except LabError as error:
            yield RequirementFinding(name, False, str(error), False)
            continue
        if root:
            yield from stack.check()
        else:
            names = (stack.title,) if stack.requirements is None else stack.requirements
            yield from (RequirementFinding(name, None, _ROOT_ONLY, False) for name in names)
    if not root:
        yield from (RequirementFinding(name, None, _ROOT_ONLY, False) for name in (FREERADIUS, HOSTAPD))
        return
    for name, server in ((FREERADIUS, find_freeradius()), (HOSTAPD, find_hostapd())):
        remedy = f"apt install {name.lower()}, or {PREPARE_REMEDY}"
        yield make_finding(name, list_versions([server] if server else []), "not there", remedy=remedy)


def get_date() -> str:
    """Return the current UTC date for manifests."""
    return time.strftime("%Y-%m-%d", time.gmtime())
