import pytest

from ikeanalyze.model.esp.algorithms import EspError, parse_suite
from ikeanalyze.model.esp.overhead import CLEAR, OverheadQuery, compute_overhead, list_paper_configs, make_paper_query
from ikeanalyze.model.esp.packet_size import EspConfig, EspEncapsulation, EspMode, compute_paper_size
from ikeanalyze.model.esp.queue import make_fixed_sizes


def peers(found):
    return {(peer.suite, peer.mips): peer for peer in found.peers}


def test_overheads_agree_with_the_paper():
    overhead = compute_overhead(OverheadQuery(list_paper_configs(), [64, 480], paper=True, mips=[100]))
    row = next(packet for packet in overhead.packets if (packet.suite, packet.clear) == ("3des-md5", 480))
    assert (row.size, row.operations, row.parts) == (compute_paper_size("3des-md5", 480), 493676, None)
    assert row.us == (pytest.approx(4936.76),)
    assert overhead.peers == []  # without traffic


def test_a_channel_behind_the_processor():
    """480 bytes are 500 in DES: 2 Mbit/s carry 1.92 Mbit/s of clear packets; 100 MIPS keep up with 618 a second."""
    traffic = make_fixed_sizes(480)
    overhead = compute_overhead(
        OverheadQuery(list_paper_configs(), [480], True, None, [100], traffic, [1e6, 1.95e6, 3e6], channel=2e6)
    )
    assert overhead.grown["des"] == pytest.approx(500 / 480)
    des = peers(overhead)[("des", 100)]
    assert des.throughput_bps == pytest.approx(1.92e6)
    assert des.ceiling_bps == pytest.approx(100e6 / 161820 * 8 * 480)
    first, second, third = des.waiting
    # M/D/1 twice: load / (2 (1 - load)) + 1 services
    load, line = 1e6 / des.ceiling_bps, 1e6 / 1.92e6
    wanted = 1.6182 * (1 + load / (2 * (1 - load))) + 2.0 * (1 + line / (2 * (1 - line)))
    assert first.total_ms == pytest.approx(wanted)
    assert (second.processor is None, second.channel, second.total_ms) == (False, None, None)
    assert (third.processor, third.channel, third.total_ms) == (None, None, None)
    clear = peers(overhead)[(CLEAR, 100)]
    assert (clear.ceiling_bps, clear.throughput_bps) == (None, 2e6)
    assert clear.waiting[0].total_ms == pytest.approx(1.92 * (1 + 0.5 / (2 * 0.5)))


def test_figure_11_bends_where_the_paper_says():
    """3DES is limited by the processor below 300 MIPS, everything else by the radio channel from 100 MIPS on."""
    result = peers(compute_overhead(make_paper_query()))
    for name in ("null-md5", "des", "des-md5"):
        assert result[(name, 100)].throughput_bps == result[(name, 500)].throughput_bps
    for name in ("3des", "3des-md5"):
        assert result[(name, 200)].throughput_bps < 0.9 * result[(name, 500)].throughput_bps
        assert result[(name, 300)].throughput_bps == result[(name, 500)].throughput_bps


def test_figure_14_orders_as_the_paper_says():
    """Null+MD5, DES+MD5 and 3DES+MD5 "present the higher mean data rate increase"."""
    grown = compute_overhead(make_paper_query()).grown
    assert min(grown[name] for name in grown if "md5" in name) > max(grown["des"], grown["3des"])
    assert grown["des"] == grown["3des"]


def test_operations_that_were_measured():
    forms = [EspConfig(parse_suite("aes256gcm16"))]
    overhead = compute_overhead(
        OverheadQuery(forms, [100], mips=[10], traffic=make_fixed_sizes(100), per_byte={"aes256gcm16": 5})
    )
    assert overhead.packets[0].us == (50,)
    assert peers(overhead)[("aes256gcm16", 10)].ceiling_bps == pytest.approx(10e6 / 5 * 8)
    unknown = compute_overhead(OverheadQuery(forms, [100], mips=[10]))
    assert (unknown.packets[0].operations, unknown.packets[0].us) == (None, (None,))
    with pytest.raises(EspError, match="is unknown"):
        compute_overhead(OverheadQuery(forms, [100], mips=[10], traffic=make_fixed_sizes(100)))
    with pytest.raises(EspError, match="'des' is not one of the requested suites"):
        compute_overhead(OverheadQuery(forms, [100], per_byte={"des": 5}))


def test_the_largest_payload_fits_the_mtu():
    """1500 bytes hold an outer header of 20, 8 + 8 + 16 of ESP and 1448 in words, two of them the trailer."""
    form = EspConfig(parse_suite("aes256gcm16"), EspMode.TUNNEL, EspEncapsulation.NONE)
    assert compute_overhead(OverheadQuery([form], [100], mtu=1500)).largest == {"aes256gcm16": 1446}
