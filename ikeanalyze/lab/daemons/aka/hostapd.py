"""hostapd as AAA server: EAP-AKA, with an authentication centre of our own behind it."""

import sys
from typing import Final

from ikeanalyze.io.atomic_write import write_private
from ikeanalyze.lab import LabError
from ikeanalyze.lab.daemons.aka import auc
from ikeanalyze.lab.daemons.aka.subscriber import AkaSubscriber
from ikeanalyze.lab.daemons.daemon import Daemon, start_daemon
from ikeanalyze.lab.daemons.installation import DaemonStack
from ikeanalyze.lab.network.namespaces import Netns, NetnsSandbox, wait_until_ready

PORT: Final = 1812
_START_SECONDS: Final = 30
_CONFIG: Final = """\
interface=lab
driver=none
logger_stdout=-1
logger_stdout_level=2
eap_server=1
eap_user_file=/run/users
eap_sim_db=unix:/run/{socket}
radius_server_clients=/run/clients
radius_server_auth_port={port}
radius_server_ipv6={ipv6}
"""
#: Identities that begin with 0 are permanent identities of EAP-AKA (RFC 4187, section 4.1.1.6).
_USERS: Final = '"0"* AKA\n'


def start_hostapd(
    sandbox: NetnsSandbox, host: Netns, stack: DaemonStack, subscriber: AkaSubscriber, *, client: str, secret: str
) -> Daemon:
    """Start the authentication centre and hostapd. `client`: address of the responder, which shares `secret` with it.

    Raises:
        LabError: one of them does not start.
    """
    folder = host.folder / "run"
    folder.mkdir()
    subscribers = host.folder / "subscribers"
    write_private(str(subscribers), f"{subscriber.imsi} {subscriber.ki.hex()} {subscriber.opc.hex()}\n")
    centre = sandbox.start([sys.executable, "-m", "ikeanalyze.lab.daemons.aka.auc", str(folder), str(subscribers)])
    if not wait_until_ready((folder / auc.SOCKET).exists, centre, _START_SECONDS):
        raise LabError("the authentication centre for EAP-AKA did not start")
    write_private(str(folder / "clients"), f"{client} {secret}\n")
    write_private(str(folder / "users"), _USERS)
    text = _CONFIG.format(socket=auc.SOCKET, port=PORT, ipv6=int(":" in client))
    write_private(str(folder / "hostapd.conf"), text)
    # hostapd binds a socket in /tmp for the answers of the authentication centre
    before = [["mount", "--bind", "/run", "/tmp"]]
    daemon = start_daemon(sandbox, host, stack, folder, "-dd", "/run/hostapd.conf", before=before)
    log = folder / "out"
    ready = "Setup of interface done"
    if not wait_until_ready(lambda: ready in log.read_text(errors="replace"), daemon.process, _START_SECONDS):
        lines = log.read_text(errors="replace").splitlines()
        errors = [line for line in lines if "rror" in line or "ailed" in line]
        raise LabError(f"hostapd did not start: {(errors or ['no message'])[-1].strip()}")
    return daemon
