"""Requirements of the daemons: skip with a reason if one is missing, or fail if LAB_REQUIRED is set (`.ci/run`)."""

import os
import signal
import tempfile

import pytest

from ikeanalyze.lab import machine


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """Daemons can be run, in a folder for temporary files that nobody else uses."""
    missing = [row.name for row in machine.check_requirements() if row.name != "nft" and row.needed and not row.there]
    for name in ("ML-KEM", "IKEv1", "libreswan", "OpenIKED", "FreeRADIUS", "nft"):
        missing += [row.name for row in machine.check_requirements() if row.name == name and not row.there]
    if missing:
        why = f"the lab lacks {', '.join(missing)} (ikeanalyze lab doctor)"
        if os.environ.get("LAB_REQUIRED"):
            pytest.fail(why)
        pytest.skip(why)
    # runs that the tests start inherit what nohup ignores, and a closed terminal must end them
    hang_up = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # short, because of the sockets in it
    with tempfile.TemporaryDirectory(prefix="lab") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield
    signal.signal(signal.SIGHUP, hang_up)
