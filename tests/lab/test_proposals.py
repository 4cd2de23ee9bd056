"""Proposals beyond the usual ones, between real strongSwan daemons."""

import pytest

import ikeanalyze
from ikeanalyze.lab import machine
from ikeanalyze.lab.run.case_run import run_case
from ikeanalyze.lab.scenario.expansion import expand_cases
from tests.lab.agreement import check
from tests.lab.test_recording import tshark

pytestmark = pytest.mark.lab


def run(tmp_path, **data) -> dict:
    (case,) = expand_cases(data, "x", "proposal")
    return check(run_case(case, tmp_path))


@pytest.mark.parametrize("stack", ["strongswan-5.9", "strongswan-6"])
@pytest.mark.parametrize(("proposal", "size"), [("des-md5", 104), ("3des-md5", 104), ("null-md5", 96)])
def test_old_ciphers_carry_traffic(lab, tmp_path, stack, proposal, size):
    """Packets of 44 bytes: 20 IP, 8 UDP, 8 SPI and number, IV of 8 (NULL: 0), 44 + 2 padded to 48, 12 ICV."""
    sides = {"initiator": {"stack": stack}, "responder": {"stack": stack}}
    steps = ["traffic:count=20,size=44,rate=400"]
    (handshake,) = run(tmp_path, ike={"esp_proposals": proposal}, then=steps, **sides)["handshakes"]
    assert handshake["child"]
    assert handshake["steps"][0]["counts"]["up"] == {"sent": 20, "received": 20}
    sizes = tshark(tmp_path / "proposal.pcapng", "-Y", "esp", "-T", "fields", "-e", "ip.len")
    assert sizes == [str(size if not machine.has_kernel_esp() else size - 8)] * 40


def test_a_cipher_without_integrity_is_refused_and_the_traffic_says_so(lab, tmp_path):
    """RFC 4303 allows it, charon does not take it."""
    steps = ["ping", "traffic"]
    (handshake,) = run(tmp_path, ike={"esp_proposals": "des"}, then=steps)["handshakes"]
    assert (handshake["established"], handshake["child"]) == (True, False)
    assert handshake["why"] == "NO_PROPOSAL_CHOSEN"
    assert [step["done"] for step in handshake["steps"]] == [False, False]


@pytest.mark.parametrize(
    ("proposal", "method", "ip_fragments"),
    [("mlkem512", "ML-KEM-512", 0), ("mlkem768", "ML-KEM-768", 0), ("mlkem1024", "ML-KEM-1024", 4)],
)
def test_ml_kem_alone_in_ike_sa_init(lab, tmp_path, proposal, method, ip_fragments):
    """No other key exchange: four messages. IKE_SA_INIT has no IKE fragments (RFC 7383, 2.5), and IP fragments it."""
    manifest = run(tmp_path, ike={"proposals": f"aes256gcm16-prfsha384-{proposal}"})
    (handshake,) = manifest["handshakes"]
    assert handshake["child"]
    files = manifest["files"]
    result = ikeanalyze.read(tmp_path / files["capture"], keys=[tmp_path / files["keys"]])
    row = result.handshakes.row(0, named=True)
    assert (row["outcome"], row["key_exchange"], row["additional_key_exchanges"]) == ("established", method, [])
    assert (row["initiator_messages"], row["responder_messages"], row["ip_fragments"]) == (2, 2, ip_fragments)
    fields = ("-T", "fields", "-e", "isakmp.key_exchange.dh_group")
    groups = tshark(tmp_path / files["capture"], "-Y", "isakmp.exchangetype == 34", *fields)
    # IANA, Transform Type 4: ML-KEM-512, 768 and 1024 are 35, 36 and 37
    assert groups == [str({"mlkem512": 35, "mlkem768": 36, "mlkem1024": 37}[proposal])] * 2


def test_ml_kem_1024_alone_fails_where_ip_fragments_are_dropped(lab, tmp_path):
    timers = {"retransmit_timeout_s": 0.2, "retransmit_base": 1, "retransmit_tries": 2}
    ike = timers | {"proposals": "aes256gcm16-prfsha384-mlkem1024"}
    (handshake,) = run(tmp_path, ike=ike, link={"drop_ip_fragments": True}, timeout_s=10)["handshakes"]
    assert (handshake["established"], handshake["why"]) == (False, "no answer")


def test_ml_kem_first_and_a_classical_method_after_it(lab, tmp_path):
    ike = {"proposals": "aes256gcm16-prfsha384-mlkem768-ke1_ecp384"}
    (handshake,) = run(tmp_path, ike=ike, then=["rekey-ike"])["handshakes"]
    assert handshake["child"]
    assert handshake["steps"][0]["done"]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("proposal", ["des-sha1-modp2048", "cast128-sha1-modp2048", "blowfish256-sha256-modp2048"])
def test_old_ciphers_of_ike_are_decrypted(lab, tmp_path, version, proposal):
    """All messages are as the daemons log them; those of IKEv2 have the right ICV, too."""
    (handshake,) = run(tmp_path, ike={"version": version, "proposals": proposal})["handshakes"]
    assert handshake["established"]
    path = tmp_path / "proposal.pcapng"
    messages = ikeanalyze.read(path, keys=[path.with_suffix(".keys.json")]).messages
    assert messages["decrypted"].drop_nulls().all()
    assert messages["verified"].drop_nulls().all() == (version == 2)
