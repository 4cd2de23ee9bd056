"""Describes the machine that a case runs on, for its manifest: figures of time depend on it."""

import os
import platform
import re
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from ikeanalyze.lab.daemons.installation import DaemonStack

#: Debian packages of the daemons and of what they compute with.
_PACKAGES: Final = (
    *(
        "strongswan*",
        "libstrongswan*",
        "libcharon*",
        "libreswan*",
        "freeradius*",
        "libfreeradius*",
        "openiked*",
        "hostapd",
    ),
    *("libssl3*", "libnss3", "libc6"),
)
_LIBRARIES: Final = ("usr/lib/*/libcrypto.so.3", "usr/lib64/libcrypto.so.3", "usr/lib/libcrypto.so.3")
_OPENSSL: Final = re.compile(rb"OpenSSL (\d+\.\d+\.\d+\S*) \d+ \w+ \d{4}\0")
_SECONDS: Final = 20


def describe_host(stacks: Mapping[str, DaemonStack]) -> dict[str, Any]:
    """Return processor, load and kernel of this machine, and the software of the stacks by host."""
    return {
        "began": format_time(),
        "processor": _read_processor_model(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "governor": _read_line(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        "load_before": get_load(),
        "kernel": platform.release(),
        "openssl": {host: find_openssl_version(stack.root) for host, stack in stacks.items()},
        "packages": {host: list_packages(stack.root) for host, stack in stacks.items()},
    }


def get_load() -> list[float]:
    """Return the average number of running processes in the last 1, 5 and 15 minutes."""
    return [round(average, 2) for average in os.getloadavg()]


def format_time() -> str:
    """Return the current UTC time."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _read_processor_model() -> str | None:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Model", "cpu model"):
                return value.strip()
    return platform.processor() or None


def _read_line(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None


@cache
def find_openssl_version(root: Path) -> str | None:
    """Return the version of a system's libcrypto; None: it has none that we find."""
    for pattern in _LIBRARIES:
        for library in sorted(root.glob(pattern)):
            with suppress(OSError):
                if version := _OPENSSL.search(library.read_bytes()):
                    return version[1].decode()
    return None


@cache
def list_packages(root: Path) -> dict[str, str]:
    """Return the versions of a Debian system's packages of daemons and their libraries; empty: not a Debian system."""
    database = root / "var/lib/dpkg"
    form = "${db:Status-Abbrev} ${Package} ${Version}\n"
    command = ["dpkg-query", f"--admindir={database}", "--show", f"--showformat={form}", *_PACKAGES]
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    rows = (line.split() for line in completed.stdout.splitlines())
    return {row[1]: row[2] for row in rows if len(row) == 3 and row[0] == "ii"}
