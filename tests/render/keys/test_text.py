import json

import pytest

from ikeanalyze.keys.detect import read_keys
from ikeanalyze.render import Format
from ikeanalyze.render.keys.formats import FORMATS
from ikeanalyze.render.keys.text import KeyList
from tests.paths import CAPTURES, ROOT
from tests.render.render_text import written

CAPTURES, LOGS = CAPTURES, ROOT / "tests" / "keys" / "logs"
PQ = str(CAPTURES / "pq-mlkem768-psk.charon.log.gz")
ALL = [
    PQ,
    str(CAPTURES / "psk-classic.keys.json"),
    str(LOGS / "libreswan-4.10.secrets"),
    str(LOGS / "charon-5.9.8-ikev1.i.log.gz"),
    str(LOGS / "libreswan-4.10-sha512.i.log.gz"),
]
SECRET = "33e2560712009fd8292651be2c83134aebe9626a8d46fb5e6acdba1fef7050e96f0babb1"  # SK_ei of epoch 0


def shown(*paths: str, reveal: bool = False, width: int | None = None) -> str:
    listing = KeyList([read_keys(path) for path in paths], [], reveal)
    return written(FORMATS, listing, Format.TERMINAL, width=width)


def listed(*paths: str, reveal: bool = False) -> dict:
    listing = KeyList([read_keys(path) for path in paths], [("x", "no such file")], reveal)
    return json.loads(written(FORMATS, listing, Format.JSON))


def test_one_suite_is_shown_once():
    assert shown(PQ).split("\n", 1)[1] == (
        "  format      charon log\n"
        "  IKEv2       2 key sets\n"
        "  algorithms  AES-GCM-16-256\n"
        "  key sizes   SK_e 36, SK_d 48 bytes\n"
        "\n"
        "IKEv2 key sets\n"
        "  SPIi              SPIr              epoch  fingerprint  line\n"
        "  904a132d2b087803  f2748b73dae9f971      0  6317d711      100\n"
        "  904a132d2b087803  f2748b73dae9f971      1  b7737f7c      311\n"
    )


def test_what_a_file_does_not_say():
    text = shown(str(CAPTURES / "psk-classic.keys.json"))
    assert "algorithms  not said" in text
    assert "  not said  not said  not said  bfd5c73a        -" in text.splitlines()


def test_the_same_set_has_the_same_fingerprint_in_all_files():
    assert "bfd5c73a" in shown(str(CAPTURES / "psk-classic.charon.log.gz"))


def test_several_suites_are_in_the_table():
    text = " ".join(shown(ALL[2], width=200).split())
    assert "CHACHA20-POLY1305 SK_e 32 bytes, without salt" in text
    assert "3DES, HMAC-SHA1-96 SK_e 24, SK_a 20 bytes" in text
    assert "AES-CTR-256, HMAC-SHA2-256-128" in text


def test_an_icv_that_is_not_checked():
    assert "AES-CBC-256, 32 bytes of ICV not checked" in shown(ALL[4])


def test_keys_of_ikev1_are_listed_with_their_lengths():
    assert "16 bytes" in shown(ALL[3])


@pytest.mark.parametrize("path", ALL)
@pytest.mark.parametrize("width", [80, 120])
def test_lines_fit_the_width(path, width):
    lines = shown(path, width=width).split("\n", 1)[1].splitlines()
    assert max(map(len, lines)) <= width


def test_keys_of_esp_are_listed_and_shown_only_if_revealed(tmp_path):
    path = tmp_path / "esp_sa"
    path.write_text('"IPv4","192.0.2.1","*","*","NULL","","HMAC-MD5-96 [RFC2403]","0x' + "ab" * 16 + '"\n')
    line = shown(str(path), width=100).splitlines()[-1].split()
    assert line[:3] == ["any", "192.0.2.1", "*"]
    assert line[4:] == ["1", "NULL,", "HMAC-MD5-96", "[RFC2403]"]
    assert "ab" * 16 in shown(str(path), reveal=True)
    assert listed(str(path), reveal=True)["files"][0]["esp"][0]["integrity_key"] == "ab" * 16


def test_secrets_only_when_asked_for():
    assert SECRET not in shown(*ALL)
    assert f"  SK_ei  {SECRET}\n" in shown(PQ, reveal=True)
    assert SECRET not in json.dumps(listed(*ALL))
    assert listed(PQ, reveal=True)["files"][0]["key_sets"][0]["sk_ei"] == SECRET


def test_json_lists_key_sets_and_files_that_were_skipped():
    document = listed(PQ, ALL[2])
    assert document["schema"] == "ikeanalyze.keylist/1"
    assert document["skipped"] == [{"path": "x", "reason": "no such file"}]
    first, second = document["files"][0]["key_sets"]
    assert (first["spi_i"], first["epoch"], second["epoch"]) == ("904a132d2b087803", 0, 1)
    assert (first["encryption"], first["key_bits"], first["integrity"]) == ("AES-GCM-16", 256, "NONE")
    assert first["bytes"]["sk_ei"] == 36
    assert document["files"][1]["warnings"][0]["line"] == 3
    assert list(document["files"][1]["warnings"][0]) == ["line", "message"]
    assert listed(ALL[3])["files"][0]["phase1"][0]["bytes"] == 16
    assert len(listed(ALL[3], reveal=True)["files"][0]["phase1"][0]["key"]) == 32
