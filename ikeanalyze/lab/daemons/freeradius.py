"""FreeRADIUS as AAA server: EAP-MD5, EAP-MSCHAPv2 or EAP-TLS."""

from dataclasses import dataclass, field
from typing import Final

from ikeanalyze.io.atomic_write import write_private
from ikeanalyze.lab import LabError
from ikeanalyze.lab.daemons.certificates import CertificateChain
from ikeanalyze.lab.daemons.daemon import Daemon, start_daemon
from ikeanalyze.lab.daemons.installation import DaemonStack
from ikeanalyze.lab.network.namespaces import Netns, NetnsSandbox, wait_until_ready

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
    password: str = field(repr=False)
    secret: str = field(repr=False)  # shared with the responder
    method: str


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
    tls, method = "" if certificates is None else _TLS, _METHODS[account.method]
    text = _RADIUSD.format(client=client, secret=account.secret, method=method, address=address, port=PORT, tls=tls)
    write_private(str(folder / "radiusd.conf"), text)
    write_private(str(folder / "users"), f'{account.user} Cleartext-Password := "{account.password}"\n')
    # -X: a single process in the foreground, which logs its packets
    daemon = start_daemon(sandbox, host, stack, folder, "-X", "-d", "/run")
    log = folder / "out"
    ready = "Ready to process requests"
    if not wait_until_ready(lambda: ready in log.read_text(errors="replace"), daemon.process, _START_SECONDS):
        lines = log.read_text(errors="replace").splitlines()
        errors = [line for line in lines if "rror" in line or "ailed" in line]
        raise LabError(f"FreeRADIUS did not start: {(errors or ['no message'])[-1].strip()}")
    return daemon
