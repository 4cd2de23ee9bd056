import os
import subprocess

import pytest

from ikeanalyze.keys.wireshark import (
    ESP_ENCRYPTION,
    ESP_INTEGRITY,
    IKE_ENCRYPTION,
    IKE_INTEGRITY,
    get_wireshark_encryption_name,
    get_wireshark_integrity_name,
)
from tests.paths import CAPTURES

SPIS = "1122334455667788,99aabbccddeeff00"


def combinations():
    """All pairs that go together."""
    return [
        (e, i)
        for e, encryption in IKE_ENCRYPTION.items()
        for i in IKE_INTEGRITY
        if not encryption.aead or i == "NONE [RFC4306]"
    ]


def complaints(directory) -> list[str]:
    command = ["tshark", "-r", CAPTURES / "psk-classic.pcap", "-c", "1"]
    environment = {**os.environ, "WIRESHARK_CONFIG_DIR": str(directory)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=True)
    return [line for line in done.stderr.splitlines() if "Running as user" not in line]


def test_how_many_there_are():
    assert len(combinations()) == 138


@pytest.mark.tshark
def test_wireshark_takes_all_names_with_these_lengths(tmp_path):
    rows = []
    for e, i in combinations():
        key, mac = "ab" * IKE_ENCRYPTION[e].key, "cd" * IKE_INTEGRITY[i].key
        rows.append(f'{SPIS},{key},{key},"{e}",{mac},{mac},"{i}"')
    (tmp_path / "ikev2_decryption_table").write_text("\n".join(rows) + "\n")
    assert complaints(tmp_path) == []


@pytest.mark.tshark
def test_wireshark_would_complain(tmp_path):
    (tmp_path / "ikev2_decryption_table").write_text(f'{SPIS},ab,ab,"AES-CBC-128 [RFC3602]",,,"NONE [RFC4306]"\n')
    assert "Length of SK_ei" in complaints(tmp_path)[0]


@pytest.mark.tshark
def test_wireshark_takes_the_names_of_esp(tmp_path):
    later = ("ChaCha20 with Poly1305", "AES-GCM with IIV", "TripleDes-CBC")  # or earlier than 4.0
    rows = [f'"IPv4","*","*","*","{e}","","NULL",""' for e in ESP_ENCRYPTION if not e.startswith(later)]
    rows += [f'"IPv4","*","*","*","NULL","","{i}",""' for i in ESP_INTEGRITY]
    (tmp_path / "esp_sa").write_text("\n".join(rows) + "\n")
    assert complaints(tmp_path) == []


def test_names_of_what_was_negotiated():
    for name, known in IKE_ENCRYPTION.items():
        assert get_wireshark_encryption_name(known.transform, known.key) == name
    for name, known in IKE_INTEGRITY.items():
        assert get_wireshark_integrity_name(known.transform, known.unchecked_icv) == name


@pytest.mark.parametrize(("transform", "key"), [(28, 36), (23, 16), (12, 20), (99, 0)])
def test_what_wireshark_has_no_name_for(transform, key):
    assert get_wireshark_encryption_name(transform, key) is None


@pytest.mark.parametrize(("transform", "icv"), [(5, None), (8, None), (None, None), (None, 20 + 1), (99, None)])
def test_what_wireshark_has_no_name_for_either(transform, icv):
    assert get_wireshark_integrity_name(transform, icv) is None
