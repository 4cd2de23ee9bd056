"""Distinguished names are written as in RFC 4514, whatever kind of string they have, by report and plugin alike."""

from pathlib import Path

import pytest

from ikeanalyze.wire.x509.names import format_distinguished_name
from tests.dissectors.run_plugin import PLUGIN
from tests.paths import CAPTURES

SCRIPT = Path(__file__).with_name("distinguished_names.lua")

UTF8, TELETEX, UNIVERSAL, BMP, OCTETS = 0x0C, 0x14, 0x1C, 0x1E, 0x04


def common_name(tag: int, value: bytes) -> bytes:
    """A name in DER (X.690) with one common name, 2.5.4.3."""
    der = b"\x06\x03\x55\x04\x03" + bytes([tag, len(value)]) + value
    for outer in (0x30, 0x31, 0x30):
        der = bytes([outer, len(der)]) + der
    return der


#: Names with their texts: RFC 4514, section 2.4.
NAMES = {
    common_name(UTF8, "Zürich".encode()): "CN=Zürich",
    common_name(TELETEX, "Zürich".encode("latin-1")): "CN=Zürich",
    common_name(BMP, "Zürich €".encode("utf-16-be")): "CN=Zürich €",
    common_name(BMP, "𝔊".encode("utf-16-be")): "CN=𝔊",
    common_name(UNIVERSAL, "a€𝔊".encode("utf-32-be")): "CN=a€𝔊",
    common_name(OCTETS, b"Hi"): "CN=#04024869",
    common_name(UTF8, b'James "Jim" Smith, III'): 'CN=James \\"Jim\\" Smith\\, III',
    common_name(UTF8, b"Before\rAfter"): "CN=Before\\0dAfter",
    common_name(UTF8, b"#a#"): "CN=\\#a#",
    common_name(UTF8, b" a "): "CN=\\ a\\ ",
    common_name(UTF8, b" "): "CN=\\ ",
    common_name(UTF8, b""): "CN=",
}


@pytest.mark.parametrize(("der", "text"), NAMES.items(), ids=NAMES.values())
def test_the_report_writes_a_name(der, text):
    assert format_distinguished_name(der) == text


def test_the_plugin_writes_the_same_names(tshark):
    files = {"ikex": PLUGIN / "ikex", "names": "".join(f"{der.hex()}\n" for der in NAMES)}
    done = tshark.run("-q", capture=CAPTURES / "psk-classic.pcap", lua=[SCRIPT], files=files)
    assert done.stderr == ""
    assert done.lines == list(NAMES.values())
