import gzip
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ikeanalyze.lab import machine
from ikeanalyze.lab.daemons import registry


def test_what_is_found_is_so():
    result = {row.name: row for row in machine.check_requirements()}
    assert result["root"].there == (os.geteuid() == 0)
    assert all(row.remedy for row in result.values() if row.needed and row.there is False)
    for stack in registry.get_stack("strongswan").find():
        if stack.root == Path("/"):
            stdout = subprocess.run([stack.program, "--version"], capture_output=True, text=True).stdout
            assert f"strongSwan {stack.version}" in stdout
    config = Path("/proc/config.gz")
    if config.exists() and result["root"].there:
        enabled = gzip.decompress(config.read_bytes()).decode().splitlines()
        for name, option in (("ESP in the kernel", "CONFIG_INET_ESP"), ("netem", "CONFIG_NET_SCH_NETEM")):
            if f"{option}=m" not in enabled:  # a module is there or not
                assert result[name].there == (f"{option}=y" in enabled)


@pytest.mark.skipif(os.geteuid() != 0, reason="without root, namespaces are not looked for")
def test_a_missing_program_is_not_a_missing_permission(monkeypatch):
    which = shutil.which
    monkeypatch.setattr(machine.shutil, "which", lambda name: None if name == "ip" else which(name))
    result = {row.name: row for row in machine.check_requirements()}
    names = list(result)
    assert names.index("ip") < names.index("network namespaces")  # `lab run` names the first thing that it lacks
    assert (result["ip"].there, result["ip"].remedy) == (False, "apt install iproute2")
    namespaces = result["network namespaces"]
    assert (namespaces.there, namespaces.found, namespaces.remedy) == (None, "only ip can find out", None)
