"""A responder by itself, with an initiator's place beside it; nothing stays behind."""

import os
import socket
import tempfile
from pathlib import Path

import pytest

from ikeanalyze.lab import LabError
from ikeanalyze.lab.daemons import registry
from ikeanalyze.lab.network.namespaces import PREFIX
from ikeanalyze.lab.scenario.expansion import expand_cases
from tests.craft import ike
from tests.lab.live_responder import run_responder, write_credentials

pytestmark = pytest.mark.lab


def case(**stdin):
    (expand_case,) = expand_cases(stdin, "here", "standing")
    return expand_case


def test_it_answers_in_the_initiators_place_and_nowhere_else(lab, tmp_path):
    ours = os.stat("/proc/thread-self/ns/net").st_ino
    with run_responder(case()) as responder:
        assert responder.responder.is_ready()
        with responder.enter_initiator_netns():
            assert os.stat("/proc/thread-self/ns/net").st_ino != ours
            there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            there.bind((responder.local, 500))
        assert os.stat("/proc/thread-self/ns/net").st_ino == ours
        with there:
            there.settimeout(10)
            # a proposal that it does not have
            message = ike.message(
                b"INITIATO", bytes(8), 34, ike.INITIATOR, 0,
                [ike.sa([ike.HYBRID]), ike.ke(31, b"k" * 32), ike.nonce(b"n" * 32)],
            )  # fmt: skip
            there.sendto(message, (responder.remote, 500))
            answer = there.recv(65535)
        assert answer[28:] == b"\0\0\0\x08\0\0\0\x0e"  # N(NO_PROPOSAL_CHOSEN)
        assert "received proposals unacceptable" in responder.log
    assert not list(Path(tempfile.gettempdir()).glob(f"{PREFIX}*"))


def test_credentials_are_for_their_owner_alone(lab, tmp_path):
    wanted = case(initiator={"auth": "rsa", "chain": 3}, responder={"auth": "psk"})
    (tmp_path / "credentials.toml").touch(0o644)  # one that is there already
    with run_responder(wanted) as responder:
        path = write_credentials(responder, wanted, tmp_path)
        assert responder.credentials.psk in path.read_text()
    modes = {one.name: one.stat().st_mode & 0o777 for one in tmp_path.iterdir()}
    assert modes["credentials.toml"] == modes["initiator.key"] == 0o600
    assert (tmp_path / "initiator.pem").read_text().count("BEGIN CERTIFICATE") == 2


def test_stacks_that_cannot_stand(lab):
    if registry.get_stack("libreswan").find():
        with pytest.raises(LabError, match="strongSwan's"), run_responder(case(responder={"stack": "libreswan"})):
            pass
    with (
        pytest.raises(LabError, match="is not on this machine"),
        run_responder(case(responder={"stack": "strongswan-9.9"})),
    ):
        pass
