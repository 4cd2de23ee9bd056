"""`replay --tcp` against libreswan over a real TCP connection (RFC 9329), captured at the responder.

The kernel's part, which many kernels lack, is `tests.replay.espintcp`.
"""

import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import ikeanalyze
from ikeanalyze.lab.daemons import libreswan, peer_config
from ikeanalyze.lab.daemons.registry import find_installed
from ikeanalyze.lab.network import topology
from ikeanalyze.lab.network.namespaces import NetnsSandbox, wait_until_ready
from ikeanalyze.lab.run.case_hosts import start_links
from ikeanalyze.lab.scenario.expansion import expand_cases

pytestmark = pytest.mark.lab
STAND_IN = 4501
MARKER = 4
#: What comes in on port 4500 goes to the stand-in.
REDIRECT = (
    "add table ip espintcp\n"
    "add chain ip espintcp incoming { type nat hook prerouting priority -100; }\n"
    f"add rule ip espintcp incoming iifname {topology.LINK} tcp dport 4500 redirect to :{STAND_IN}\n"
)
ESTABLISHED = re.compile(r"responder established IKE SA; authenticated peer using authby=secret")
#: Bytes of each message with its marker that pluto read and wrote.
READ, WROTE = (
    re.compile(r"socket \d+: read (\d+) of \d+ byte (?:first )?packet"),
    re.compile(r"wrote (\d+) of \1 bytes"),
)


def listen_on_tcp(build):
    def changed(role, case, network):
        """The stand-in's address is not the initiator's."""
        text = build(role, case, network).replace("config setup\n", "config setup\n  listen-tcp=yes\n")
        return text.replace(f"right={network.initiator_address}", "right=%any") + "  enable-tcp=yes\n"

    return changed


def run_handshake(folder: Path) -> dict[str, str]:
    """Leave wire.pcapng, live.pcapng and live.keys.json in a folder; return what was logged and printed."""
    (case,) = expand_cases({"responder": {"stack": "libreswan"}}, "x", "x")
    with NetnsSandbox() as sandbox:
        network = topology.build_network(sandbox, case)
        start_links(sandbox, case, network)
        credentials = peer_config.make_credentials(case)
        responder = network.responder
        installed = find_installed("responder", case)
        pluto = libreswan.start_libreswan(sandbox, responder, installed, case, network, credentials)
        pluto.run_whack("--impair", "tcp_skip_setsockopt_espintcp")
        responder.run("nft", "-f", "-", stdin=REDIRECT)
        command = [sys.executable, "-m", "tests.replay.espintcp", str(STAND_IN), network.responder_address, "4500"]
        output = folder / "espintcp"
        stand_in = sandbox.start(responder.command(*command), output=output)
        assert wait_until_ready(lambda: "ready" in output.read_text(), stand_in, 20)
        capture, messages = responder.folder / "wire.pcapng", folder / "dumpcap"
        dumpcap = ["dumpcap", "-n", "-i", topology.LINK, "-f", "tcp", "-w", str(capture)]
        recording = sandbox.start(responder.command(*dumpcap), output=messages)
        assert wait_until_ready(lambda: "File: " in messages.read_text(), recording, 20)
        (folder / "shape.toml").write_text('auth = "psk"\nfragment_size = 0\n')
        secrets = folder / "credentials.toml"
        secrets.touch(0o600)
        secrets.write_text(
            f'[local]\nidentity = "initiator.lab"\npsk = "{credentials.psk}"\n[remote]\nidentity = "responder.lab"\n'
        )
        command = [
            *(sys.executable, "-m", "ikeanalyze", "replay", str(folder / "shape.toml"), "--tcp", "--mode", "reenact"),
            *("--target", network.responder_address, "--credentials", str(secrets), "--timeout", "30"),
            *("-w", str(folder / "live.pcapng")),
        ]
        done = subprocess.run(
            network.initiator.command(*command), capture_output=True, text=True, timeout=60, check=False
        )
        time.sleep(1)  # for dumpcap's buffers
        sandbox.stop(recording, by=signal.SIGINT)
        shutil.copyfile(capture, folder / "wire.pcapng")
        return {"log": pluto.log.read_text(errors="replace"), "printed": done.stdout + done.stderr}


def test_libreswan_establishes_an_ike_sa_over_tcp(lab, tmp_path, monkeypatch):
    monkeypatch.setattr(libreswan, "build_ipsec_conf", listen_on_tcp(libreswan.build_ipsec_conf))
    told = run_handshake(tmp_path)
    assert ESTABLISHED.search(told["log"]), told["printed"]
    found = ikeanalyze.read(tmp_path / "wire.pcapng", keys=[tmp_path / "live.keys.json"], payloads=True)
    row = found.handshakes.row(0, named=True)
    assert (row["outcome"], row["auth_initiator"], row["auth_responder"]) == ("established", "psk", "psk")
    assert set(found.frames["encapsulation"]) == {"TCP 4500"}
    assert found.messages["type"].to_list() == ["IKE_SA_INIT"] * 2 + ["IKE_AUTH"] * 2 + ["INFORMATIONAL"] * 2
    sizes = dict(found.frames.group_by("source").agg("ike_bytes").rows())
    read, wrote = ([int(size) - MARKER for size in each.findall(told["log"])] for each in (READ, WROTE))
    assert sizes == {"192.0.2.1": [size for size in read if size > 0], "192.0.2.2": wrote}
