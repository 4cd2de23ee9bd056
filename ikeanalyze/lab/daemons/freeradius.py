"""FreeRADIUS as AAA server: EAP-MD5, EAP-MSCHAPv2 or EAP-TLS."""

import time
from dataclasses import dataclass
from typing import Final

from ikeanalyze.keys.export import write_private
from ikeanalyze.lab import LabError
from ikeanalyze.lab.daemons.certificates import CertificateChain
from ikeanalyze.lab.daemons.daemon import Daemon, start_daemon
from ikeanalyze.lab.machine import DaemonStack
from ikeanalyze.lab.network.namespaces import Netns, NetnsSandbox

PORT: Final = 1812
_START_SECONDS: Final = 30
_METHODS: Final = {"eap-md5": "md5", "eap-mschapv2": "mschapv2", "eap-tls": "tls"}

_RADIUSD: Final = """\
prefix = /usr
logdir = /run
run_dir = /run
db_dir = /run
libdir = /usr/lib/freeradius
max_request_time = 30
cleanup_delay = 5
max_requests = 16384
hostname_lookups = no
log {{
    destination = stdout
}}
security {{
    allow_vulnerable_openssl = yes
}}
proxy_requests = no
thread pool {{
    start_servers = 1
    max_servers = 4
}}
client responder {{
    ipaddr = {client}
    secret = "{secret}"
}}
modules {{
    files {{
        usersfile = /run/users
    }}
    mschap {{
        use_mppe = yes
    }}
    eap {{
        default_eap_type = {method}
        timer_expire = 60
        max_sessions = 4096
        md5 {{
        }}
        mschapv2 {{
        }}
{tls}
    }}
}}
server lab {{
    listen {{
        type = auth
        ipaddr = {address}
        port = {port}
    }}
    authorize {{
        eap {{
            ok = return
        }}
        files
    }}
    authenticate {{
        eap
        Auth-Type MS-CHAP {{
            mschap
        }}
    }}
}}
"""
_TLS: Final = """\
        tls-config lab {
            private_key_file = /run/server.key
            certificate_file = /run/server.pem
            ca_file = /run/trusted.pem
            fragment_size = 1024
            tls_min_version = "1.2"
            tls_max_version = "1.2"
            cache {
                enable = no
            }
        }
        tls {
            tls = lab
        }"""


@dataclass(frozen=True, slots=True)
class RadiusAccount:
    """A user, and the secret shared with the responder."""

    user: str
    password: str
    #: Shared with the responder.
    secret: str
    method: str

    def __repr__(self) -> str:
        return f"RadiusAccount({self.user!r}, {self.method!r})"


def start_freeradius(
    sandbox: NetnsSandbox,
    host: Netns,
    stack: DaemonStack,
    account: RadiusAccount,
    *,
    address: str,
    client: str,
    certificates: tuple[CertificateChain, str] | None = None,
) -> Daemon:
    """Start FreeRADIUS. `certificates`: for EAP-TLS, its chain and the PEM root of the clients' certificates.

    Raises:
        LabError: it does not start; the text has the last error of its log.
    """
    folder = host.folder / "run"
    folder.mkdir()
    if certificates is not None:
        chain, trusted = certificates
        write_private(str(folder / "server.key"), chain.key)
        write_private(str(folder / "server.pem"), chain.end + "".join(chain.intermediates))
        write_private(str(folder / "trusted.pem"), trusted)
    text = _RADIUSD.format(
        client=client,
        secret=account.secret,
        method=_METHODS[account.method],
        address=address,
        port=PORT,
        tls=_TLS if certificates is not None else "",
    )
    write_private(str(folder / "radiusd.conf"), text)
    write_private(str(folder / "users"), f'{account.user} Cleartext-Password := "{account.password}"\n')
    # -X: a single process in the foreground, which logs its packets
    daemon = start_daemon(sandbox, host, stack, folder, "-X", "-d", "/run")
    deadline = time.monotonic() + _START_SECONDS
    while True:
        log = (folder / "out").read_text(errors="replace")
        if "Ready to process requests" in log:
            return daemon
        if not daemon.alive or time.monotonic() > deadline:
            lines = [line for line in log.splitlines() if "rror" in line or "ailed" in line]
            raise LabError(f"FreeRADIUS did not start: {(lines or ['no message'])[-1].strip()}")
        time.sleep(0.05)
