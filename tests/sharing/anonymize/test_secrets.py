"""Nothing of the original is left in a copy: its bytes, and those that keys decrypt in it, are searched."""

import ipaddress
import json
import re
import struct

import dpkt
import pytest

from tests.craft import Interface, Packet, link, pcapng
from tests.craft.pcapng_file import block, interface_description, packet_block, section_header
from tests.paths import CAPTURES
from tests.sharing.anonymize.copies import find_keys, make_copy
from tests.sharing.anonymize.test_reports import KEYED
from tests.sharing.reports import RECORDED, analyse, document_of

#: Names and identities of the lab and of the older recordings that are long enough to be searched for.
NAMES = ("initiator.lab", "responder.lab", "ikeanalyze lab", "0001010000000001", "strongSwan", "carol", "moon")


def list_addresses(path, **options):
    """Addresses of packets, and of decrypted traffic selectors and configuration."""
    frames = analyse(path, **options).frames
    seen = {str(value) for name in ("source", "destination") for value in frames[name].unique().to_list()}
    text = json.dumps(document_of(path, payloads=True, **options)["handshakes"])
    inside = {address for address in re.findall(r"\b\d+\.\d+\.\d+\.\d+\b", text) if address.count(".") == 3}
    return {address for address in seen | inside if not address.startswith("0.")}


def list_macs(path):
    """MAC addresses of Ethernet frames, and of the headers of Linux cooked captures."""
    with path.open("rb") as file:
        reader = dpkt.pcap.UniversalReader(file)
        places = {1: (0, 6), 276: (12,)}[reader.datalink()]
        frames = [bytes(data) for _, data in reader]
    macs = {frame[at : at + 6] for frame in frames for at in places}
    return {mac for mac in macs if any(mac[:3]) and mac != b"\xff" * 6}


def find_left(texts, secrets):
    return [secret for secret in secrets for text in texts if secret in text]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_no_address_and_no_name_in_the_file(path, tmp_path):
    out = tmp_path / "out.pcapng"
    make_copy(path, out)
    addresses = list_addresses(path)
    secrets = {text.encode() for text in (*NAMES, *addresses)}
    secrets |= {ipaddress.ip_address(address).packed for address in addresses} | list_macs(path)
    assert find_left([out.read_bytes()], secrets) == []


@pytest.mark.parametrize("path", KEYED, ids=lambda path: path.stem)
def test_no_address_and_no_name_in_decrypted_messages(path, tmp_path):
    out, keys = tmp_path / "out.pcapng", find_keys(path)
    make_copy(path, out, keys)
    addresses = list_addresses(path, keys=tuple(keys))
    assert len(addresses) >= 2
    secrets = {text.encode() for text in (*NAMES, *addresses)}
    secrets |= {ipaddress.ip_address(address).packed for address in addresses}
    plaintexts = [text.message for text in analyse(out, keys=tuple(keys), cleartext=True).cleartexts.values()]
    assert len(plaintexts) > 1
    assert find_left(plaintexts, secrets) == []
    original = [text.message for text in analyse(path, keys=tuple(keys), cleartext=True).cleartexts.values()]
    assert find_left(original, secrets) != []  # the search would find them


def test_no_metadata_of_pcapng_is_copied(tmp_path):
    """Names of hosts, interfaces and programs, comments and secrets."""
    path, out = tmp_path / "in.pcapng", tmp_path / "out.pcapng"
    with (CAPTURES / "psk-classic.pcap").open("rb") as file:
        packets = [Packet(round(time * 1e9), bytes(data)) for time, data in dpkt.pcap.UniversalReader(file)]
    interface = Interface(name="SECRET-interface")
    names = block(4, struct.pack("<HH", 1, 20) + bytes([192, 0, 2, 1]) + b"SECRET-host.ex\0\0" + bytes(4))
    secrets = block(10, struct.pack("<II", 0x544C534B, 12) + b"SECRET-key-x")
    path.write_bytes(
        section_header(comment="SECRET-comment")
        + interface_description(interface)
        + names
        + secrets
        + b"".join(packet_block(packet, interface) for packet in packets)
    )
    assert make_copy(path, out).written == len(packets)
    assert b"SECRET" in path.read_bytes()
    assert b"SECRET" not in out.read_bytes()
    assert b"SECRET".hex().encode() not in out.read_bytes()


def test_padding_and_options_are_overwritten(tmp_path):
    """Padding after the IP packet may hold memory of the sender; IPv4 options may hold addresses."""
    path, out = tmp_path / "in.pcapng", tmp_path / "out.pcapng"
    header = bytes.fromhex("47000000000000004011000000000000c0000201c0000202")
    udp = struct.pack(">4H", 500, 500, 8 + 28, 0)
    message = bytes(range(1, 9)) + bytes(8) + bytes([0, 0x20, 34, 8]) + bytes(4) + struct.pack(">I", 28)
    packet = header[:20] + b"SECRET!!" + udp + message
    packet = packet[:2] + struct.pack(">H", len(packet)) + packet[4:]
    path.write_bytes(pcapng([Packet(1, link.ethernet(packet) + b"SECRET padding")]))
    assert make_copy(path, out).written == 1
    assert b"SECRET" not in out.read_bytes()
    assert message in out.read_bytes()


def test_esp_and_unknown_packets(tmp_path):
    """ESP need not be encrypted, so its contents are overwritten; what is not understood is dropped."""
    path, out = tmp_path / "in.pcapng", tmp_path / "out.pcapng"
    frames = []
    for protocol, payload in (
        (50, struct.pack(">II", 0xABCD0123, 1)),
        (51, bytes(8)),
        (17, struct.pack(">4H", 53, 53, 22, 0)),
    ):
        data = dpkt.ip.IP(src=b"\xc0\0\2\1", dst=b"\xc0\0\2\2", p=protocol, data=payload + b"SECRET contents")
        data.len = 20 + len(payload) + 15
        frames.append(Packet(1, link.ethernet(bytes(data))))
    path.write_bytes(pcapng(frames))
    result = make_copy(path, out)
    assert (result.written, dict(result.dropped)) == (1, {"AH": 1, "other UDP": 1})
    assert b"SECRET" not in out.read_bytes()
    assert bytes.fromhex("abcd0123") in out.read_bytes()
