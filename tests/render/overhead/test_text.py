"""What was computed, in each format."""

import csv
import io
import json

import pytest

from ikeanalyze.model.esp.algorithms import parse_suite
from ikeanalyze.model.esp.overhead import OverheadQuery, compute_overhead, list_paper_configs
from ikeanalyze.model.esp.packet_size import EspConfig
from ikeanalyze.model.esp.queue import make_fixed_sizes
from ikeanalyze.render import Format, RenderOptions
from ikeanalyze.render.overhead.formats import FORMATS
from ikeanalyze.render.overhead.text import OverheadReport, render_sections


@pytest.fixture(scope="module")
def computed():
    traffic = make_fixed_sizes(480)
    return compute_overhead(
        OverheadQuery(list_paper_configs(), [64, 480], True, None, [100, 300], traffic, [1e6, 3e6], 2e6)
    )


def written(computed, form, tmp_path):
    path = tmp_path / "x"
    FORMATS.write(OverheadReport(computed=computed), form, str(path), RenderOptions(width=100))
    return path.read_text()


def test_text_has_computed_sizes_operations_and_delays(computed, tmp_path):
    lines = [line.split() for line in written(computed, Format.TERMINAL, tmp_path).splitlines()]
    assert ["3des-md5", "480", "512", "32", "0.859", "493,676", "4,936.8", "1,645.6"] in lines
    assert ["3des", "100", "485,460", "4,854.6", "791", "791"] in lines
    # 100 MIPS do not keep up with 1 Mbit/s in 3DES; of the channel 2 ms · (1 + 0.5208 / (2 · 0.4792))
    assert ["3des", "100", "1,000", "-", "-", "-", "-", "3.087", "-"] in lines


def test_parts_and_mtu(tmp_path):
    overhead = compute_overhead(OverheadQuery([EspConfig(parse_suite("aes128-sha256"))], [64], mtu=1400))
    text = written(overhead, Format.TERMINAL, tmp_path)
    assert "MTU 1400    aes128-sha256: packets of 1,326 bytes fit" in text
    assert json.loads(written(overhead, Format.JSON, tmp_path))["computed"]["traffic"] is None
    # 20 + 8 of headers, 16, 14 of padding, 2, 16
    assert ["aes128-sha256", "64", "140", "76", "0.171", "28", "16", "14", "2", "16"] in [
        line.split() for line in text.splitlines()
    ]


def test_json_has_the_computed_packets_and_their_settings(computed, tmp_path):
    document = json.loads(written(computed, Format.JSON, tmp_path))
    assert (document["schema"], document["measured"]) == ("ikeanalyze.overhead/1", None)
    result = document["computed"]
    assert (result["formulas"], result["mode"], result["encapsulation"]) == ("paper", "transport", "udp")
    assert result["packets"][1] == {
        "suite": "null-md5",
        "clear_bytes": 480,
        "esp_packet_bytes": 512,
        "added_bytes": 32,
        "ratio": 440 / 512,
        "operations": 8216,
        "us": [82.16, pytest.approx(27.38667)],
        "parts": None,
    }
    assert (result["traffic"], result["channel_bps"]) == ({"mean_bytes": 480, "sizes": 1}, 2e6)
    peers = {(peer["suite"], peer["mips"]): peer for peer in result["processors"]}
    assert peers[("clear", 100)]["ceiling_bps"] is None
    assert peers[("3des", 100)]["delays"][0]["total_ms"] is None
    assert peers[("3des", 300)]["delays"][0]["processor"]["load"] == pytest.approx(1e6 / (3 * 791001), rel=1e-4)


def test_csv_and_markdown(computed, tmp_path):
    rows = list(csv.DictReader(io.StringIO(written(computed, Format.CSV, tmp_path))))
    assert len(rows) == 10
    assert (rows[0]["suite"], rows[0]["esp_packet_bytes"], rows[0]["us_100_mips"]) == ("null-md5", "96", "37.52")
    assert "| des | 64 | 84 | 20 | 0.286 |" in written(computed, Format.MARKDOWN, tmp_path)


def test_rows_are_limited_unless_all_are_requested(tmp_path):
    overhead = compute_overhead(OverheadQuery([EspConfig(parse_suite("aes128gcm16"))], range(40, 140)))
    (_, table) = render_sections(OverheadReport(computed=overhead), every=False)
    assert (len(table.rows), table.more) == (30, 70)
    (_, table) = render_sections(OverheadReport(computed=overhead), every=True)
    assert (len(table.rows), table.more) == (100, 0)
