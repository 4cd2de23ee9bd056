import gzip
import os
import subprocess
from pathlib import Path

from ikeanalyze.lab import machine
from ikeanalyze.lab.daemons import registry


def test_what_is_found_is_so():
    result = {row.name: row for row in machine.check_requirements()}
    assert result["root"].there == (os.geteuid() == 0)
    assert all(row.there or row.remedy or not row.needed or row.name == "network namespaces" for row in result.values())
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
