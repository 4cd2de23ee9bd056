from ikeanalyze.lab.logs.iked import parse_iked_log, read_handshake_progress
from ikeanalyze.lab.logs.summary import LoggedDatagram

#: Of OpenIKED 7.4 as initiator, RSA with fragments, first request and IKE_AUTH lost once.
LOG = """\
ikev2_init_ike_sa: initiating "lab"
spi=0xe7da00dbce28432a: send IKE_SA_INIT req 0 peer 192.0.2.2:500 local 192.0.2.1:500, 278 bytes
spi=0xe7da00dbce28432a: retransmit 1 IKE_SA_INIT req 0 peer 192.0.2.2:500 local 192.0.2.1:500
spi=0xe7da00dbce28432a: recv IKE_SA_INIT res 0 peer 192.0.2.2:500 local 192.0.2.1:500, 303 bytes, policy 'lab'
spi=0xe7da00dbce28432a: send IKE_AUTH req 1 peer 192.0.2.2:4500 local 192.0.2.1:4500, 548 bytes, NAT-T
spi=0xe7da00dbce28432a: send IKE_AUTH req 1 peer 192.0.2.2:4500 local 192.0.2.1:4500, 372 bytes, NAT-T
spi=0xe7da00dbce28432a: retransmit 1 IKE_AUTH req 1 peer 192.0.2.2:4500 local 192.0.2.1:4500
spi=0xe7da00dbce28432a: recv IKE_AUTH res 1 peer 192.0.2.2:4500 local 192.0.2.1:4500, 224 bytes, policy 'lab'
"""
SUCCESS = """\
spi=0xe7da00dbce28432a: ikev2_childsa_enable: loaded SPIs: 0x000fa000, 0x000fad00 (enc aes-256 auth hmac-sha2-512)
spi=0xe7da00dbce28432a: established peer 192.0.2.2:4500[FQDN/responder.lab] local 192.0.2.1:4500[FQDN/initiator.lab]
"""


def test_messages_have_a_line_for_each_fragment_and_one_for_all_when_retransmitted():
    summary = parse_iked_log((LOG + SUCCESS).splitlines())
    assert summary.messages == [
        "IKE_SA_INIT request 0",
        "IKE_SA_INIT request 0",
        "IKE_AUTH request 1",
        "IKE_AUTH request 1",
    ]
    assert [datagram.bytes for datagram in summary.sent] == [278, 278, 548, 372, 548, 372]
    assert summary.sent[-1] == LoggedDatagram("192.0.2.1", 4500, "192.0.2.2", 4500, 372)
    assert (summary.requests_retransmitted, summary.responses_retransmitted) == (2, 0)
    assert summary.established == 1


def test_responses_and_ipv6():
    lines = [
        "spi=0xec: send IKE_AUTH res 1 peer [2001:db8::1]:500 local [2001:db8::2]:500, 224 bytes",
        "spi=0xec: retransmit IKE_AUTH res 1 local [2001:db8::2]:500 peer [2001:db8::1]:500",
    ]
    summary = parse_iked_log(lines)
    assert summary.messages == ["IKE_AUTH response 1"] * 2
    assert summary.sent == [LoggedDatagram("2001:db8::2", 500, "2001:db8::1", 500, 224)] * 2
    assert (summary.requests_retransmitted, summary.responses_retransmitted) == (0, 1)


def test_progress_of_a_handshake():
    assert not read_handshake_progress(LOG.splitlines()[:1]).begun
    progress = read_handshake_progress(LOG.splitlines())
    assert (progress.begun, progress.established, progress.failed) == (True, False, False)
    assert progress.problem == "stopped at the IKE_AUTH response"
    assert read_handshake_progress(LOG.splitlines()[:3]).problem == "no answer"
    progress = read_handshake_progress((LOG + SUCCESS).splitlines())
    assert (progress.established, progress.child, progress.failed) == (True, True, False)


def test_reasons_of_failure():
    def why(line):
        progress = read_handshake_progress([*LOG.splitlines(), line])
        assert progress.failed
        return progress.problem

    assert why("spi=0x3d: sa_free: authentication failed notification from peer") == "AUTHENTICATION_FAILED"
    assert why("spi=0x9b: sa_free: no proposal chosen") == "NO_PROPOSAL_CHOSEN"
    assert why("spi=0x9b: sa_free: retransmit limit reached") == "no answer"
    refused = "unsupported integrity algorithm HMAC_SHA2_256_128"
    assert why(f"pfkey_sa: {refused}") == f"no CHILD_SA: {refused}"
    summary = parse_iked_log(["spi=0x3d: sa_free: authentication failed notification from peer"])
    assert summary.refused == {"AUTHENTICATION_FAILED": 1}
