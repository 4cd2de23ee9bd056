"""The authentication centre: answers in the form of hostapd's hlr_auc_gw, with vectors that a USIM accepts."""

import socket
import subprocess
import sys
import time

from ikeanalyze.crypto.aka.milenage import Milenage, reveal_sqn
from ikeanalyze.lab.daemons.aka.auc import AuthenticationCentre, read_subscribers

IMSI = "001010000000001"
#: Test set 1 of 3GPP TS 35.208.
KI, OPC = "465b5ce8b199b49faa5f0a2ee238a6bc", "cd63cb71954a9f4e48a5994e37a02baf"
USIM = Milenage(bytes.fromhex(KI), bytes.fromhex(OPC))


def check_vector(answer: str) -> bytes:
    """Verify "AKA-RESP-AUTH IMSI RAND AUTN IK CK RES" as a USIM does; return SQN."""
    command, imsi, *values = answer.split()
    assert (command, imsi) == ("AKA-RESP-AUTH", IMSI)
    rand, autn, ik, ck, res = map(bytes.fromhex, values)
    vector = USIM.compute_vector(rand)
    assert (vector.ik, vector.ck, vector.res) == (ik, ck, res)
    sqn, amf, mac_a = reveal_sqn(autn, vector)
    assert USIM.compute_macs(rand, sqn, amf)[0] == mac_a
    return sqn


def test_each_vector_has_a_new_challenge_and_a_higher_sequence_number():
    centre = AuthenticationCentre(read_subscribers(f"{IMSI} {KI} {OPC}\n"))
    answers = [centre.answer(f"AKA-REQ-AUTH {IMSI}") or "" for _ in range(3)]
    sequence = [check_vector(answer) for answer in answers]
    assert sequence == sorted(set(sequence))
    assert len({answer.split()[2] for answer in answers}) == 3


def test_unknown_subscribers_are_refused():
    assert AuthenticationCentre({}).answer("AKA-REQ-AUTH 999") == "AKA-RESP-AUTH 999 FAILURE"


def test_other_requests_are_not_answered():
    """hostapd expects no response to AKA-AUTS."""
    assert AuthenticationCentre({}).answer("AKA-AUTS 999 00 00") is None


def test_secrets_stay_out_of_texts():
    assert KI not in repr(AuthenticationCentre(read_subscribers(f"{IMSI} {KI} {OPC}\n")))


def test_the_process_answers_at_its_socket(tmp_path):
    subscribers = tmp_path / "subscribers"
    subscribers.write_text(f"{IMSI} {KI} {OPC}\n")
    command = [sys.executable, "-m", "ikeanalyze.lab.daemons.aka.auc", str(tmp_path), str(subscribers)]
    process = subprocess.Popen(command)
    try:
        deadline = time.monotonic() + 20
        while not (tmp_path / "auc").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
            client.bind(str(tmp_path / "eap_sim_db_1-0"))
            client.settimeout(20)
            client.sendto(f"AKA-REQ-AUTH {IMSI}".encode(), str(tmp_path / "auc"))
            check_vector(client.recv(1000).decode())
    finally:
        process.terminate()
        process.wait()
