"""Measured ESP: a ping between two strongSwans, and packets by hand."""

import pytest

from ikeanalyze.analysis.esp.traffic import read_esp_traffic
from ikeanalyze.model.esp.algorithms import parse_suite
from ikeanalyze.render.overhead.esp_traffic import build_document, build_rows, render_sections
from tests.craft import MS, Packet, ip, ipv4, link, pcap, transport
from tests.paths import LAB_CAPTURES

NAT = LAB_CAPTURES / "nat.pcapng"


@pytest.fixture(scope="module")
def ping():
    return read_esp_traffic(str(NAT))


def test_the_text_has_esp_sas_sequence_numbers_and_sizes(ping):
    facts, sas, numbers, sizes = render_sections(ping, parse_suite("aes256-sha256"), every=False)
    assert ("packets", "8 packets, 2 of ESP") in facts.rows
    # 44 bytes of ICMP are between 31 and 46
    assert list(sas.rows[0][:6]) == ["192.0.2.1", "192.0.2.2", "839f52f1", "udp-4500", "1", "130"]
    assert sas.rows[0][-1] == "31 to 46"
    assert numbers.rows[0] == ("839f52f1", "1", "1", "0", "0", "0", "0", "0")
    assert sizes.rows == [("to 128", "2", "100.0 %")]


def test_equal_spis_of_two_receivers_are_two_sas(tmp_path):
    """RFC 4303, section 2.1: an SPI is the receiver's, so two receivers may choose the same."""
    path = tmp_path / "x.pcap"
    ends = [(7, "192.0.2.2"), (7, "192.0.2.9"), (8, "192.0.2.2")]
    packets = [ipv4(transport.esp(spi, 1, bytes(40)), "192.0.2.1", to, ip.ESP) for spi, to in ends]
    path.write_bytes(pcap([Packet(10**18 + n * MS, link.ethernet(packet)) for n, packet in enumerate(packets)]))
    traffic = read_esp_traffic(str(path))
    _, _, numbers, _ = render_sections(traffic, None, every=False)
    names = [row[0] for row in numbers.rows]
    assert names == ["00000007, 192.0.2.1 to 192.0.2.2", "00000007, 192.0.2.1 to 192.0.2.9", "00000008"]


def test_json_has_each_esp_sa_with_its_sizes_and_rate(ping):
    document = build_document(ping, None)
    assert (document["packets"], document["esp_packets"], document["suite"]) == (8, 2, None)
    (first, second) = document["sas"]
    assert (first["source"], first["spi"], first["esp_bytes"]) == ("192.0.2.1", "839f52f1", 88)
    assert first["payload_least_bytes"] is None
    assert first["histogram"] == [{"to_bytes": 128, "packets": 1}]
    assert [item["bytes"] for item in second["rate"]] == [130]
    assert document["not_counted"] == {"cut": 0, "lost_fragments": 0, "in_tcp": 0, "beyond": 0}


def test_csv_has_a_row_for_each_esp_sa(ping):
    rows = list(build_rows(ping, parse_suite("aes256-sha256")))
    assert [row["spi"] for row in rows] == ["839f52f1", "5f839714"]
    assert (rows[0]["payload_least_bytes"], rows[0]["payload_most_bytes"]) == (31, 46)


def test_what_is_not_counted_is_said(tmp_path):
    cut = link.ethernet(ipv4(transport.esp(1, 1, bytes(40)), protocol=ip.ESP))
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap([Packet(10**18 + n * MS, cut) for n in range(2)], snaplen=40))
    (facts,) = render_sections(read_esp_traffic(str(path)), None, every=False)
    assert ("not counted", "2 frames cut before the end of the ESP header") in facts.rows
