"""A scenario between two machines over SSH: network namespaces, each with an sshd of its own, joined by a real link."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import polars as pl
import psutil
import pytest

import ikeanalyze
from ikeanalyze.lab import LabError
from ikeanalyze.lab.daemons.registry import find_installed
from ikeanalyze.lab.network.namespaces import Netns, NetnsSandbox, wait_until_ready
from ikeanalyze.lab.run.case_run import run_case
from ikeanalyze.lab.scenario.expansion import expand_cases
from tests.lab.agreement import check

# In one process after another: they look for what is left in /tmp of the machines, which is that of this machine.
pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("machines over SSH")]
ROLES = ("initiator", "responder")
ADDRESSES = {"initiator": "192.0.2.1", "responder": "192.0.2.2"}
LOGINS = {"initiator": "198.51.100.1", "responder": "198.51.100.5"}
PROPOSALS = "aes256-sha256-ecp256-ke1_mlkem768"
SSHD = """\
Port 22
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
"""
CLIENT = """\
Host *
    User root
    IdentityFile {folder}/user
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known_hosts
    GlobalKnownHostsFile none
Host initiator
    HostName {initiator}
Host responder stranger
    HostName {responder}
"""


def make_keys(folder: Path) -> None:
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    host_key = (folder / "host.pub").read_text()
    (folder / "known_hosts").write_text("".join(f"{address} {host_key}" for address in LOGINS.values()))
    (folder / "sshd_config").write_text(SSHD.format(folder=folder))
    (folder / "client").write_text(CLIENT.format(folder=folder, **LOGINS))


def plug(host: Netns, name: str, address: str, peer: Netns, peer_name: str, peer_address: str) -> None:
    host.run("ip", "link", "add", name, "type", "veth", "peer", "name", peer_name, "netns", str(peer.keeper))
    for end, interface, own in ((host, name, address), (peer, peer_name, peer_address)):
        end.run("ip", "address", "add", f"{own}/30", "dev", interface)
        end.run("ip", "link", "set", interface, "up")


@pytest.fixture
def machines(lab, tmp_path, monkeypatch):
    """Two machines that our `ssh` reaches as "initiator" and "responder"; by name, the namespaces."""
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if not sshd:
        (pytest.fail if os.environ.get("LAB_REQUIRED") else pytest.skip)("sshd is not on this machine")
    Path("/run/sshd").mkdir(exist_ok=True)
    make_keys(tmp_path)
    with NetnsSandbox() as sandbox:
        hosts = {name: sandbox.create_netns(name) for name in (*ROLES, "lab")}
        plug(hosts["initiator"], "wan", ADDRESSES["initiator"], hosts["responder"], "wan", ADDRESSES["responder"])
        plug(hosts["initiator"], "eth0", LOGINS["initiator"], hosts["lab"], "eth0", "198.51.100.2")
        plug(hosts["responder"], "eth0", LOGINS["responder"], hosts["lab"], "eth1", "198.51.100.6")
        for role in ROLES:
            command = [sshd, "-D", "-e", "-f", str(tmp_path / "sshd_config")]
            daemon = sandbox.start(hosts[role].command(*command), output=tmp_path / f"{role}.sshd")
            output = tmp_path / f"{role}.sshd"
            assert wait_until_ready(lambda output=output: "listening" in output.read_text(), daemon, 10)
        # the commands of the lab are run where the machines can be reached
        programs = tmp_path / "bin"
        programs.mkdir()
        enter = f"nsenter --net=/proc/{hosts['lab'].keeper}/ns/net --"
        (programs / "ssh").write_text(f'#!/bin/sh\nexec {enter} {shutil.which("ssh")} -F {tmp_path}/client "$@"\n')
        (programs / "ssh").chmod(0o755)
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        yield hosts


def make_scenario(**keys) -> dict:
    """A scenario with strongSwan 6, which may be in a Debian tree, on both machines."""
    (case,) = expand_cases({"ike": {"proposals": PROPOSALS}}, "x", "x")
    root = str(find_installed("initiator", case).root)
    sides = {role: {"host": role, "address": ADDRESSES[role], "root": "" if root == "/" else root} for role in ROLES}
    return {"ike": {"proposals": PROPOSALS}, "timeout_s": 20, **sides, **keys}


def list_processes(host: Netns) -> list[str]:
    """Command lines of what runs on a machine, apart from its sshd and what keeps it."""
    namespace = os.stat(f"/proc/{host.keeper}/ns/net").st_ino
    lines = []
    for process in psutil.process_iter():
        with suppress(OSError, psutil.Error):
            if os.stat(f"/proc/{process.pid}/ns/net").st_ino == namespace and process.pid != host.keeper:
                lines.append(" ".join(process.cmdline()))
    return [line for line in lines if "[listener]" not in line]


def find_leftovers(machines: dict[str, Netns]) -> list[str]:
    """What runs on the machines, and folders there, unless it ends in some seconds."""
    deadline = time.monotonic() + 15
    while True:
        left = [line for role in ROLES for line in list_processes(machines[role])]
        left += [str(path) for path in Path("/tmp").glob("ikeanalyze-ssh-????????")]
        left = [line for line in left if line not in BEFORE]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)


BEFORE: set[str] = set()


@pytest.fixture(autouse=True)
def _other_runs():
    """Folders of other runs on this machine are not ours."""
    BEFORE.clear()
    BEFORE.update(str(path) for path in Path("/tmp").glob("ikeanalyze-ssh-????????"))


def test_handshakes_between_two_machines(machines, tmp_path):
    (case,) = expand_cases(make_scenario(iterations=3, capture="both"), "x", "machines")
    manifest = check(run_case(case, tmp_path))
    assert [handshake["child"] for handshake in manifest["handshakes"]] == [True] * 3
    for handshake in manifest["handshakes"]:
        assert all(cost["processor_ms"] > 0 for cost in handshake["costs"].values())
        assert all(cost["rss_after_bytes"] > 1 << 20 for cost in handshake["costs"].values())
    assert (manifest["links"]["link"]["by"], manifest["dropped"], manifest["ended"]) == ("ssh", 0, None)
    described = manifest["machine"]["machines"]
    assert [(described[role]["host"], described[role]["interface"]) for role in ROLES] == [
        ("initiator", "wan"),
        ("responder", "wan"),
    ]
    assert described["responder"]["kernel"] == os.uname().release
    assert manifest["machine"]["initiator"].startswith("strongSwan 6")
    for name in ("machines.pcapng", "machines.initiator.pcapng"):
        result = ikeanalyze.read(tmp_path / name, keys=[str(tmp_path / "machines.keys.json")])
        assert result.handshakes["outcome"].to_list() == ["established"] * 3
        assert result.messages.filter(pl.col("type") == "IKE_AUTH")["decrypted"].all()
    assert find_leftovers(machines) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_on_the_machines_after(machines, tmp_path, number):
    text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in flatten(make_scenario(iterations=500)))
    (tmp_path / "long.toml").write_text(text)
    command = [sys.executable, "-m", "ikeanalyze", "lab", "run", str(tmp_path / "long.toml"), "-o", str(tmp_path)]
    with (tmp_path / "messages").open("wb") as messages:
        run = subprocess.Popen([*command, "--verbose"], stdout=messages, stderr=messages)
    try:
        shown = tmp_path / "messages"
        assert wait_until_ready(lambda: "3 of 500" in shown.read_text(), run, 60), shown.read_text()
        assert all(any("charon" in line for line in list_processes(machines[role])) for role in ROLES)
        run.send_signal(number)
        run.wait(20)
    finally:
        run.kill()
    assert find_leftovers(machines) == []
    if number == signal.SIGINT:
        assert run.returncode == 130
        manifest = check(tmp_path / "long.manifest.json", outcomes=False)
        assert manifest["ended"] == "interrupted by SIGINT"
        assert len(manifest["handshakes"]) >= 3


def test_a_lost_connection_ends_the_run(machines, tmp_path):
    (case,) = expand_cases(make_scenario(iterations=5), "x", "x")

    def lose_connection(*_: object) -> None:
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if {"-M", "responder"} <= set(process.cmdline()):
                    process.kill()
                    while process.status() != psutil.STATUS_ZOMBIE:
                        time.sleep(0.01)

    with pytest.raises(LabError, match=r"^responder\.host = responder: the connection was lost$"):
        run_case(case, tmp_path, on_handshake=lose_connection)
    assert find_leftovers(machines) == []


def test_a_machine_on_which_another_ike_daemon_runs(machines, tmp_path):
    (case,) = expand_cases(make_scenario(), "x", "x")
    code = "import socket, sys; s = socket.socket(2, 2); s.bind(('', 500)); print(flush=True); sys.stdin.read()"
    command = machines["responder"].command(sys.executable, "-c", code)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(LabError, match=r"^responder\.host = responder: UDP port 500 is in use"):
            run_case(case, tmp_path)
        other.stdin.close()


def flatten(tables: dict) -> list[tuple[str, object]]:
    """Dotted keys and values, as TOML has them."""
    pairs = []
    for key, value in tables.items():
        pairs += (
            [(f"{key}.{name}", inner) for name, inner in value.items()] if isinstance(value, dict) else [(key, value)]
        )
    return [(key, value) for key, value in pairs if value != ""]


@pytest.mark.parametrize(
    ("side", "problem"),
    [
        (
            {"host": "stranger", "address": "192.0.2.2"},
            r"^responder\.host = stranger: ssh: Host key verification failed",
        ),
        ({"root": "/nowhere"}, r"strongswan of 6\.0\.2 .* is not there in /nowhere \(responder\.root\)"),
        (
            {"stack": "strongswan-4"},
            r"responder\.host = responder: strongswan-4 .*is not there .*there are: strongSwan 6",
        ),
    ],
)
def test_a_machine_that_cannot_be_used(machines, tmp_path, side, problem):
    data = make_scenario()
    data["responder"] |= side
    if side.get("host"):
        (tmp_path / "known_hosts").write_text((tmp_path / "known_hosts").read_text().splitlines()[0])
    (case,) = expand_cases(data, "x", "x")
    with pytest.raises(LabError, match=problem) as error:
        run_case(case, tmp_path)
    assert "\n" not in str(error.value)
    assert find_leftovers(machines) == []
