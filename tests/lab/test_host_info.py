import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from ikeanalyze.lab import host_info
from ikeanalyze.lab.daemons.installation import DaemonStack


def test_the_description_of_this_machine_has_kernel_cores_and_packages():
    described = host_info.describe_host({"initiator": DaemonStack("strongSwan", Path("/"), "/charon", "6.1")})
    assert described["kernel"] == platform.uname().release
    assert described["cores"] >= described["usable_cores"] >= 1
    assert len(described["load_before"]) == 3
    assert list(described["openssl"]) == list(described["packages"]) == ["initiator"]


@pytest.mark.skipif(not shutil.which("dpkg-query"), reason="not a Debian system")
def test_packages_are_those_that_dpkg_lists():
    listed = subprocess.run(["dpkg", "-s", "libc6"], capture_output=True, text=True, check=True).stdout
    version = next(line.partition(": ")[2] for line in listed.splitlines() if line.startswith("Version: "))
    assert host_info.list_packages(Path("/"))["libc6"] == version


@pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl here")
def test_the_version_of_openssl_is_that_of_its_program():
    printed = subprocess.run(["openssl", "version"], capture_output=True, text=True, check=True).stdout
    library = printed.partition("Library: OpenSSL ")[2] or printed.removeprefix("OpenSSL ")
    assert host_info.find_openssl_version(Path("/")) == library.split()[0]


def test_a_system_without_packages(tmp_path):
    assert host_info.list_packages(tmp_path) == {}
    assert host_info.find_openssl_version(tmp_path) is None
