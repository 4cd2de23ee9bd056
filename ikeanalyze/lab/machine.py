"""What this machine has of what the lab needs: asked, never assumed."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from ikeanalyze.lab import LabError, tree

CHARON: Final = "usr/lib/ipsec/charon"
#: FreeRADIUS' program, by the names that distributions give it.
RADIUS: Final = ("usr/sbin/freeradius", "usr/sbin/radiusd")
#: The first strongSwan with ML-KEM.
ML_KEM_SINCE: Final = (6, 0, 2)


@dataclass(frozen=True, slots=True)
class Stack:
    """A daemon that can be run."""

    #: Where its system is: / or a tree.
    root: Path
    #: The program, seen from there.
    program: str
    version: str

    @property
    def numbers(self) -> tuple[int, ...]:
        """The version, to be compared."""
        return tuple(map(int, re.findall(r"\d+", self.version)[:3]))


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the lab needs or is better with."""

    name: str
    #: Whether it is there.
    there: bool
    #: Version, or what is wrong.
    found: str
    #: Whether nothing can be run without it.
    needed: bool
    #: How to get it; None: it is there, or cannot be got.
    remedy: str | None = None


def _roots() -> list[Path]:
    return [Path("/"), *([tree.place()] if tree.place().is_dir() else [])]


def _said(root: Path, program: str, option: str) -> str | None:
    """What a program says of its version; None: it is not there, or cannot be run."""
    path = root / program
    if not os.access(path, os.X_OK):
        return None
    command = [str(path), option] if root == Path("/") else ["chroot", str(root), f"/{program}", option]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    number = re.search(r"\d+\.\d+(\.\d+)?\w*", done.stdout + done.stderr)
    return number[0] if number else None


@cache
def charons() -> tuple[Stack, ...]:
    """The strongSwans, this machine's own first."""
    said = ((root, _said(root, CHARON, "--version")) for root in _roots())
    return tuple(Stack(root, f"/{CHARON}", version) for root, version in said if version)


@cache
def radius() -> Stack | None:
    """FreeRADIUS, this machine's own if there is one."""
    for root in _roots():
        for program in RADIUS:
            if version := _said(root, program, "-v"):
                return Stack(root, f"/{program}", version)
    return None


def charon(*, ml_kem: bool) -> Stack:
    """The strongSwan to be used: this machine's own if it will do.

    Errors:
        LabError: there is none that will do.
    """
    for stack in charons():
        if not ml_kem or stack.numbers >= ML_KEM_SINCE:
            return stack
    what = "strongSwan of 6.0.2 or later, which ML-KEM needs," if ml_kem else "strongSwan (charon)"
    raise LabError(f"{what} is not on this machine: as root, ikeanalyze lab prepare makes a tree with it")


def _in_namespace(*commands: Sequence[str]) -> bool:
    """Whether these commands succeed in a network namespace that is gone afterwards."""
    script = " && ".join(" ".join(command) for command in commands)
    try:
        done = subprocess.run(
            ["unshare", "--net", "sh", "-c", script], capture_output=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


_DUMMY: Final = ("ip", "link", "add", "probe0", "type", "veth", "peer", "name", "probe1")


@cache
def netem() -> bool:
    """Whether the kernel delays and loses frames itself."""
    return _in_namespace(_DUMMY, ("tc", "qdisc", "add", "dev", "probe0", "root", "netem", "delay", "1ms"))


@cache
def kernel_esp() -> bool:
    """Whether the kernel has ESP; else strongSwan's kernel-libipsec does it, with every packet in UDP."""
    state = "ip xfrm state add src 10.0.0.1 dst 10.0.0.2 proto esp spi 1 mode tunnel aead 'rfc4106(gcm(aes))'"
    return _in_namespace((state, "0x" + "11" * 20, "128"))


@cache
def receiver_drops() -> bool:
    """Whether nftables drops frames behind a capture: hook `ingress`, and random numbers."""
    chain = "'add chain netdev t c { type filter hook ingress device probe0 priority 0; }'"
    return _in_namespace(
        _DUMMY,
        ("nft", "add", "table", "netdev", "t"),
        ("nft", chain),
        ("nft", "'add rule netdev t c numgen random mod 100 < 5 drop'"),
    )


def findings() -> Iterator[Finding]:
    """Look at everything, one thing after another."""
    root = os.geteuid() == 0
    yield Finding("root", root, "yes" if root else "no", True, None if root else "run it with sudo")
    spaces = _in_namespace(_DUMMY)
    yield Finding("network namespaces", spaces, "yes" if spaces else "not allowed here", True)
    best = max(charons(), key=lambda stack: stack.numbers, default=None)
    prepare = "ikeanalyze lab prepare makes a Debian tree with it"
    yield Finding(
        "strongSwan",
        best is not None,
        _where(best),
        True,
        None if best else f"apt install strongswan-charon, or {prepare}",
    )
    kem = best is not None and best.numbers >= ML_KEM_SINCE
    yield Finding("ML-KEM", kem, "yes" if kem else "needs strongSwan 6.0.2", False, None if kem else prepare)
    server = radius()
    yield Finding(
        "FreeRADIUS",
        server is not None,
        _where(server),
        False,
        None if server else f"apt install freeradius, or {prepare}",
    )
    for program, package in (("ip", "iproute2"), ("dumpcap", "wireshark-common"), ("nsenter", "util-linux")):
        path = shutil.which(program)
        yield Finding(
            program, path is not None, path or "not there", True, None if path else f"apt install {package}"
        )
    drops = receiver_drops()
    yield Finding(
        "nft",
        drops,
        "yes" if drops else "none with hook ingress",
        False,
        None if drops else "apt install nftables",
    )
    yield Finding("netem", netem(), "yes" if netem() else "not in this kernel: our own relay is used", False)
    esp = kernel_esp()
    yield Finding("ESP in the kernel", esp, "yes" if esp else "no: strongSwan's own is used", False)
    tun = Path("/dev/net/tun").exists()
    yield Finding("/dev/net/tun", tun or esp, "yes" if tun else "not there", not esp)
    for module in ("vici", "psutil"):
        there = _module(module)
        yield Finding(
            module,
            there,
            "yes" if there else "not installed",
            True,
            None if there else "pip install 'ikeanalyze[lab]'",
        )


def _where(stack: Stack | None) -> str:
    if stack is None:
        return "not there"
    return stack.version if stack.root == Path("/") else f"{stack.version} in a Debian tree"


def _module(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(name) is not None


def today() -> str:
    """The date, as manifests have it."""
    return time.strftime("%Y-%m-%d", time.gmtime())
