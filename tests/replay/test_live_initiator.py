"""The initiator against strongSwan in namespaces, over plain sockets: what the responder's log says counts."""

import datetime as dt
import re
import select
import socket
import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed448, ed25519
from msgspec import structs

from ikeanalyze.keys.detect import read_keys
from ikeanalyze.lab.daemons import peer_config
from ikeanalyze.lab.daemons.certificates import CertificateChain
from ikeanalyze.lab.scenario.expansion import expand_cases
from ikeanalyze.model.retransmission_policy import StrongswanTimers
from ikeanalyze.replay.credentials import load_credentials
from ikeanalyze.replay.handshake_shape import read_shape
from ikeanalyze.replay.initiator.initiator import Initiator
from ikeanalyze.wire.ikev2.proposals import Proposal, Transform
from tests.lab.live_responder import run_responder, write_credentials
from tests.paths import LAB_CAPTURES
from tests.replay.driving import CBC, SHA2_256, SHA2_256_128

pytestmark = pytest.mark.lab
RECORDED = LAB_CAPTURES
NON_ESP_MARKER = bytes(4)
POLICY = StrongswanTimers(timeout=5.0, tries=1).make_policy()  # nothing is lost, and nobody is in a hurry
ESTABLISHED = re.compile(r"IKE_SA lab\[\d+\] established between")


class Live:
    """A responder, and handshakes with it one after another."""

    def __init__(self, responder, credentials, sockets):
        self.responder, self.credentials, self.sockets = responder, credentials, sockets

    def initiator(self, shape, credentials=None):
        return Initiator(
            shape,
            credentials or self.credentials,
            policy=POLICY,
            endpoints=((self.responder.local, 500), (self.responder.remote, 500)),
        )

    def drive(self, initiator, step):
        while True:
            for one in step.send:
                data = (NON_ESP_MARKER if one.port == 4500 else b"") + one.data
                self.sockets[one.port].sendto(data, (self.responder.remote, one.port))
            if step.finished is not None:
                return step.finished
            wait = max(step.wake_ns - time.monotonic_ns(), 0) / 1e9
            ready, _, _ = select.select(list(self.sockets.values()), [], [], wait)
            if not ready:
                step = initiator.tick(time.monotonic_ns())
                continue
            data, source = ready[0].recvfrom(65535)
            data = data.removeprefix(NON_ESP_MARKER) if ready[0] is self.sockets[4500] else data
            step = initiator.receive(data, time.monotonic_ns(), source[1])

    def handshake(self, shape, credentials=None):
        """To its end, the delete included."""
        initiator = self.initiator(shape, credentials)
        before = self.established
        result = self.drive(initiator, initiator.begin(time.monotonic_ns()))
        assert self.established - before == result.established, result.reason
        return self.drive(initiator, initiator.close(time.monotonic_ns()))

    @property
    def established(self) -> int:
        """IKE SAs that the responder says stand or stood."""
        return len(ESTABLISHED.findall(self.responder.log))


@contextmanager
def live(folder, **given):
    """A responder of a case; nested keys of a scenario."""
    (case,) = expand_cases(given, "here", "live")
    with run_responder(case) as responder, ExitStack() as stack:
        family = socket.AF_INET6 if ":" in responder.local else socket.AF_INET
        sockets = {}
        with responder.enter_initiator_netns():
            for port in (500, 4500):
                sockets[port] = stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
                sockets[port].bind((responder.local, port))
        loaded = load_credentials(write_credentials(responder, case, folder))
        assert loaded.warnings == ()
        yield Live(responder, loaded.credentials, sockets)


def recorded(name, *, keys=True):
    """The shape of a recorded handshake."""
    return read_shape(RECORDED / f"{name}.pcapng", keys=[RECORDED / f"{name}.keys.json"] if keys else [])[1]


KINDS = {
    "mlkem768-psk": (
        {"ike": {"proposals": "aes256gcm16-prfsha384-ecp384-ke1_mlkem768"}},
        ("PSK", "PSK"),
        [34, 43, 35, 37],
    ),
    "two-additional-768-1024": (
        {"ike": {"proposals": "chacha20poly1305-prfsha256-x25519-ke1_mlkem768-ke2_mlkem1024"}},
        ("PSK", "PSK"),
        [34, 43, 43, 35, 37],
    ),
    "ecdsa": (
        {"initiator": {"auth": "ecdsa", "key_bits": 384}, "responder": {"auth": "ecdsa", "key_bits": 521}},
        ("ECDSA with SHA2-384", "ECDSA with SHA2-512"),
        [34, 35, 37],
    ),
    "rsa-chain3": (
        {"initiator": {"auth": "rsa", "chain": 3}, "responder": {"auth": "rsa", "chain": 3}},
        ("RSASSA-PKCS1-v1_5 with SHA2-256", "RSASSA-PKCS1-v1_5 with SHA2-256"),
        [34, 35, 37],
    ),
    "eap-md5": (
        {"initiator": {"auth": "eap-md5"}, "responder": {"auth": "rsa"}},
        ("EAP-MD5", "RSASSA-PKCS1-v1_5 with SHA2-256"),
        [34, *[35] * 4, 37],
    ),
    "eap-mschapv2": (
        {"initiator": {"auth": "eap-mschapv2"}, "responder": {"auth": "rsa"}},
        ("EAP-MSCHAPv2", "RSASSA-PKCS1-v1_5 with SHA2-256"),
        [34, *[35] * 5, 37],
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_the_responder_says_established(lab, tmp_path, name):
    given, authentication, exchanges = KINDS[name]
    with live(tmp_path, **given) as peer:
        shape = recorded(name)
        result = peer.handshake(shape)
        assert result.established, result.reason
        assert result.child_error is None
        assert result.authentication == authentication
        assert [exchange.exchange_type for exchange in result.exchanges] == exchanges
        assert all(exchange.transmissions == 1 for exchange in result.exchanges)
        assert "IKE_SA deleted" in peer.responder.log
        # the same again without keys for the capture: credentials and defaults do
        assert peer.handshake(recorded(name, keys=False)).established
        if name == "ecdsa":
            old = replace(shape, notifies=tuple(notify for notify in shape.notifies if notify[0] != 16431))
            assert peer.handshake(old).authentication == ("ECDSA P-384", "ECDSA P-521")
        if name == "rsa-chain3":
            old = replace(shape, notifies=tuple(notify for notify in shape.notifies if notify[0] != 16431))
            assert peer.handshake(old).authentication == ("RSA", "RSA")
            assert result.exchanges[1].datagrams_needed == 2
            assert result.exchanges[1].datagrams_used == 2
        keys = read_keys(str(peer.responder.responder.log)).key_sets
        theirs = {(key.sk_ei, key.sk_er, key.sk_pi, key.sk_pr, key.sk_d) for key in keys}
        assert {(key.sk_ei, key.sk_er, key.sk_pi, key.sk_pr, key.sk_d) for key in result.keys} <= theirs


EDWARDS = {"Ed25519": ed25519.Ed25519PrivateKey, "Ed448": ed448.Ed448PrivateKey}


def edwards_chain(kind):
    """Our certificate, and the root that issued it: the lab makes none of these itself."""
    key, above, now = EDWARDS[kind].generate(), EDWARDS[kind].generate(), dt.datetime.now(dt.UTC)
    made = []
    for common, own, authority in (("initiator.lab", key, False), ("root", above, True)):
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name.from_rfc4514_string(f"CN={common}"))
            .issuer_name(x509.Name.from_rfc4514_string("CN=root"))
            .public_key(own.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(authority, None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(common)]), critical=False)
        )
        made.append(builder.sign(above, None).public_bytes(serialization.Encoding.PEM).decode())
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return CertificateChain(pem.decode(), tuple(made))


@pytest.mark.parametrize("kind", EDWARDS)
def test_keys_of_edwards_curves(lab, tmp_path, monkeypatch, kind):
    made = peer_config.make_credentials

    def credentials(case):
        known = made(case)
        return replace(known, chains={**known.chains, "initiator": edwards_chain(kind)})

    monkeypatch.setattr(peer_config, "make_credentials", credentials)
    with live(tmp_path, initiator={"auth": "ecdsa"}, responder={"auth": "ecdsa"}) as peer:
        shape = replace(recorded("ecdsa"), auth_initiator=kind.lower())
        assert peer.handshake(shape).authentication == (kind, "ECDSA with SHA2-256")
        assert f"authentication of 'initiator.lab' with {kind.upper()} successful" in peer.responder.log


def test_charon_accepts_each_key_exchange_method(lab, tmp_path):
    groups = {"x448": 32, "ecp256": 19, "ecp521": 21, "modp2048": 14, "modp3072": 15, "modp4096": 16}
    proposals = ",".join(f"aes256-sha256-{group}" for group in groups)
    with live(tmp_path, ike={"proposals": proposals}) as peer:
        shape = recorded("psk")
        for method in groups.values():
            transforms = (CBC, SHA2_256_128, SHA2_256, Transform(4, method, ()))
            one = replace(shape, proposals=(Proposal(1, 1, b"", transforms),), key_exchange=method)
            assert peer.handshake(one).established, method


def test_the_reason_of_a_refusal_is_charons_notify(lab, tmp_path):
    with live(tmp_path, ike={"proposals": "aes256-sha256-ecp256"}) as peer:
        shape = recorded("psk")
        other = replace(peer.credentials, psk=b"other")
        assert peer.handshake(shape, other).reason == "AUTHENTICATION_FAILED"
        transforms = (CBC, SHA2_256_128, SHA2_256, Transform(4, 31, ()))
        none = replace(shape, proposals=(Proposal(1, 1, b"", transforms),), key_exchange=31)
        assert peer.handshake(none).reason == "NO_PROPOSAL_CHOSEN"
        both = replace(
            none, proposals=(structs.replace(none.proposals[0], transforms=(*transforms, Transform(4, 19, ()))),)
        )
        result = peer.handshake(both)
        assert result.established
        assert [exchange.answer for exchange in result.exchanges[:2]] == ["INVALID_KE_PAYLOAD", None]


def test_the_initiator_returns_the_cookie_of_charon(lab, tmp_path):
    with live(tmp_path, ike={"cookie_threshold": 2}) as peer:
        shape = recorded("psk")
        half_open = [peer.initiator(shape) for _ in range(3)]
        for one in half_open:
            for out in one.begin(0).send:
                peer.sockets[500].sendto(out.data, (peer.responder.remote, 500))
                assert select.select([peer.sockets[500]], [], [], 5)[0]
                peer.sockets[500].recvfrom(65535)
        result = peer.handshake(shape)
        assert result.established
        assert [exchange.answer for exchange in result.exchanges[:2]] == ["COOKIE", None]


@pytest.mark.parametrize("given", [{"ip_version": 6}, {"link": {"nat": True}}], ids=["IPv6", "NAT"])
def test_handshakes_succeed_over_ipv6_and_through_nat(lab, tmp_path, given):
    with live(tmp_path, **given) as peer:
        assert peer.handshake(recorded("psk")).established


def test_all_handshakes_over_a_lossy_path_end(lab, tmp_path):
    """A fifth is lost each way: all end, whatever comes of them."""
    proposals = "aes256gcm16-prfsha384-ecp384-ke1_mlkem768"
    with live(tmp_path, ike={"proposals": proposals}, link={"loss_percent": 20}) as peer:
        peer_policy = StrongswanTimers(timeout=0.1, base=1.3, tries=6).make_policy()
        for _ in range(5):
            initiator = Initiator(
                recorded("mlkem768-psk"), peer.credentials, policy=peer_policy,
                endpoints=((peer.responder.local, 500), (peer.responder.remote, 500)),
            )  # fmt: skip
            result = peer.drive(initiator, initiator.begin(time.monotonic_ns()))
            assert result.established or result.reason == "no answer"
            peer.drive(initiator, initiator.close(time.monotonic_ns()))
