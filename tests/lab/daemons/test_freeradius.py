import pytest

from ikeanalyze.lab import LabError, machine
from ikeanalyze.lab.daemons import certificates as daemons_certificates
from ikeanalyze.lab.daemons import freeradius
from ikeanalyze.lab.daemons.freeradius import RadiusAccount
from ikeanalyze.lab.network.namespaces import NetnsSandbox, run_command

pytestmark = pytest.mark.lab
SECRETS = ("the password", "the shared secret")


def launch(sandbox, address="127.0.0.1", certificates=None):
    account = RadiusAccount("someone", *SECRETS, "eap-tls" if certificates else "eap-md5")
    host = sandbox.create_netns("aaa")
    stack = machine.find_freeradius()
    assert stack is not None
    return host, freeradius.start_freeradius(
        sandbox, host, stack, account, address=address, client="127.0.0.1", certificates=certificates
    )


def test_it_listens_and_says_no_secret(lab):
    with NetnsSandbox() as sandbox:
        host, daemon = launch(sandbox)
        text = daemon.output.read_text()
        assert "1812" in run_command(host.command("ss", "-lun"))
        assert not any(secret in text for secret in SECRETS)
        assert all(path.stat().st_mode & 0o077 == 0 for path in (daemon.folder / "users",))


def test_freeradius_starts_with_a_certificate_chain(lab):
    chain = daemons_certificates.make_certificate_chain("rsa", 2048, 3, "aaa.lab")
    with NetnsSandbox() as sandbox:
        _, daemon = launch(sandbox, certificates=(chain, chain.root))
        assert daemon.alive


def test_a_failed_start_has_a_reason(lab):
    with NetnsSandbox() as sandbox, pytest.raises(LabError, match=r"FreeRADIUS did not start: .*192\.0\.2\.77"):
        launch(sandbox, address="192.0.2.77")


def test_an_account_shows_no_secret():
    assert not any(secret in repr(RadiusAccount("someone", *SECRETS, "eap-md5")) for secret in SECRETS)
