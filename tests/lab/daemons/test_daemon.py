import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ikeanalyze.lab.daemons import registry
from ikeanalyze.lab.daemons.daemon import start_daemon
from ikeanalyze.lab.daemons.installation import DaemonStack
from ikeanalyze.lab.network.namespaces import NetnsSandbox, run_command

pytestmark = pytest.mark.lab


def run(sandbox, *arguments, program="/bin/sh", before=(), environment=None, root=Path("/")):
    host = sandbox.create_netns("one")
    folder = host.folder / "run"
    folder.mkdir()
    stack = DaemonStack("test", root, program, "1.0")
    return start_daemon(sandbox, host, stack, folder, *arguments, environment=environment, before=before)


def wait_for(path: Path) -> str:
    deadline = time.monotonic() + 5
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return path.read_text()


def test_it_sees_its_folder_as_run_and_nobody_else_does(lab):
    with NetnsSandbox() as sandbox:
        daemon = run(
            sandbox,
            *("-c", "echo $COLOUR > /run/part; mv /run/part /run/mark; exec sleep 60"),
            environment={"COLOUR": "green"},
            before=[["touch", "/run/first"]],
        )
        assert wait_for(daemon.folder / "mark") == "green\n"
        assert (daemon.folder / "first").exists()
        assert not Path("/run/mark").exists()
        assert daemon.alive
        reported = run_command(daemon.build_command("sh", "-c", "cat /run/mark; ip -o link | wc -l"))
        assert reported.split() == ["green", "1"]
        daemon.stop()
        assert not daemon.alive


def test_what_it_says_is_kept(lab):
    with NetnsSandbox() as sandbox:
        daemon = run(sandbox, "-c", "echo out; echo err >&2; exit 3")
        daemon.process.wait(5)
        assert daemon.output.read_text() == "out\nerr\n"
        assert not daemon.alive


def test_what_fails_before_it_keeps_it_from_starting(lab):
    with NetnsSandbox() as sandbox:
        daemon = run(sandbox, "-c", "touch /run/mark", before=[["false"]])
        assert daemon.process.wait(5) == 1
        assert not (daemon.folder / "mark").exists()


def test_what_it_uses(lab):
    busy = "while [ ! -e /run/go ]; do sleep 0.05; done; "
    busy += "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; touch /run/done; exec sleep 60"
    with NetnsSandbox() as sandbox:
        daemon = run(sandbox, "-c", busy)
        before = daemon.get_usage()
        (daemon.folder / "go").touch()
        wait_for(daemon.folder / "done")
        after = daemon.get_usage()
        spent = after.user_s + after.system_s - before.user_s - before.system_s
        assert spent > 0.02
        assert before.run_ns is not None
        # the scheduler's count and the kernel's steps of 10 ms are of the same time
        assert (after.run_ns - before.run_ns) / 1e9 == pytest.approx(spent, abs=0.03)
        assert after.rss_bytes > 100_000


def test_in_a_tree(lab):
    roots = [stack.root for stack in registry.get_stack("strongswan").find() if stack.root != Path("/")]
    if not roots:
        pytest.skip("this machine needs no tree")
    before = os.listdir(roots[0] / "run")
    with NetnsSandbox() as sandbox:
        script = "echo $$ > /run/part; mv /run/part /run/mark; exec sleep 60"
        daemon = run(sandbox, "-c", script, root=roots[0])
        assert int(wait_for(daemon.folder / "mark")) == daemon.process.pid
        reported = run_command(daemon.build_command("cat", "/run/mark", "/etc/os-release"))
        assert reported.startswith(f"{daemon.process.pid}\n")
        assert reported.endswith((roots[0] / "etc" / "os-release").read_text())
        daemon.stop()
    assert os.listdir(roots[0] / "run") == before
    assert str(roots[0]) not in Path("/proc/mounts").read_text()


def test_a_daemon_of_several_processes_uses_what_they_use(lab):
    busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; touch /run/done; exec sleep 60"
    with NetnsSandbox() as sandbox:
        daemon = run(sandbox, "-c", f"(while [ ! -e /run/go ]; do sleep 0.05; done; {busy}) & wait")
        own, every = daemon, replace(daemon, has_children=True)
        before = [each.get_usage() for each in (own, every)]
        (daemon.folder / "go").touch()
        wait_for(daemon.folder / "done")
        after = [each.get_usage() for each in (own, every)]
        spent = [(late.run_ns - early.run_ns) / 1e6 for early, late in zip(before, after, strict=True)]
        assert spent[0] < spent[1] / 3
        assert after[1].rss_bytes > after[0].rss_bytes
