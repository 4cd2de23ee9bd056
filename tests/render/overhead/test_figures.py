"""The paper's figures are drawn, and say what its text says of them."""

import re

import pytest

from ikeanalyze.analysis.esp.traffic import read_esp_traffic
from ikeanalyze.model.esp.algorithms import parse_suite
from ikeanalyze.model.esp.overhead import OverheadQuery, compute_overhead
from ikeanalyze.model.esp.packet_size import EspConfig
from ikeanalyze.render.core.figures.style import DOUBLE, SINGLE
from ikeanalyze.render.overhead.figures import make_computed_figures, make_measured_figures, make_paper_figures
from tests.craft import MS, Packet, ip, ipv4, link, pcap, transport
from tests.paths import LAB_CAPTURES

LAB = LAB_CAPTURES


@pytest.fixture(scope="module")
def paper():
    return {figure.name: figure for figure in make_paper_figures()}


def test_all_that_come_from_formulas(paper):
    assert sorted(paper) == [
        "esp-buffer-3des-md5",  # Fig. 13b
        "esp-buffer-des-md5",  # 13a
        "esp-delay-100-mips",  # 12a
        "esp-delay-200-mips",
        "esp-delay-300-mips",
        "esp-delay-500-mips",
        "esp-operations",  # 5
        "esp-rate-increase",  # 14
        "esp-ratio",  # 8
        "esp-throughput",  # 11
    ]


@pytest.mark.parametrize("name", ["esp-ratio", "esp-throughput", "esp-delay-100-mips", "esp-buffer-des-md5"])
def test_they_can_be_drawn(paper, name):
    svg = paper[name].draw(SINGLE)
    assert svg.startswith("<svg")
    lines = [path for path in re.findall(r'<path aria-label="[^"]*"[^>]* d="([^"]*)"', svg) if "L" in path]
    assert len(lines) >= 4
    assert "NaN" not in svg


def test_one_size_makes_no_curve():
    overhead = compute_overhead(OverheadQuery([EspConfig(parse_suite("aes128gcm16"))], [64]))
    assert list(make_computed_figures(overhead)) == []
    overhead = compute_overhead(OverheadQuery([EspConfig(parse_suite("aes128gcm16"))], [64, 128]))
    assert [figure.name for figure in make_computed_figures(overhead)] == ["esp-ratio"]


def test_the_same_spi_of_two_receivers_makes_two_lines(tmp_path):
    path = tmp_path / "x.pcap"
    ends = [(7, "192.0.2.2"), (7, "192.0.2.9"), (8, "192.0.2.2")]
    packets = [ipv4(transport.esp(spi, 1, bytes(40)), "192.0.2.1", to, ip.ESP) for spi, to in ends]
    path.write_bytes(pcap([Packet(10**18 + n * MS, link.ethernet(packet)) for n, packet in enumerate(packets)]))
    _, rate = make_measured_figures(read_esp_traffic(str(path)))
    svg = rate.draw(DOUBLE)
    assert all(name in svg for name in ("192.0.2.1 to 192.0.2.2", "00000007, 192.0.2.1 to 192.0.2.9", "00000008"))


def test_measured_esp_traffic_has_figures_of_sizes_and_rate():
    figures = list(make_measured_figures(read_esp_traffic(str(LAB / "nat.pcapng"))))
    assert [figure.name for figure in figures] == ["esp-sizes", "esp-rate"]
    assert "to 128" in figures[0].draw(SINGLE)
    svg = figures[1].draw(SINGLE)
    assert "839f52f1" in svg
    # a packet each way within one interval: two lines with a length, and no time before the first packet
    lines = re.findall(r'<path aria-label="[^"]*"[^>]* d="M([^"A-Z]+)L([^"A-Z]+)[^"]*"', svg)
    assert len([1 for first, second in lines if first != second]) >= 2
    assert "\N{MINUS SIGN}" not in svg
