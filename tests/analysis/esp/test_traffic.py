"""SAs against a receiver that is written down packet by packet."""

from random import Random

import pytest

from ikeanalyze.analysis.esp import traffic as esp_traffic
from ikeanalyze.analysis.esp.traffic import WINDOW, RateInterval, read_esp_traffic
from ikeanalyze.capture import esp as capture
from tests.craft import MS, Packet, ip, ipv4, link, pcap, transport

START = 10**18


def packet(spi, sequence, at_ns, size=64, source="192.0.2.1", destination="192.0.2.2"):
    body = transport.esp(spi, sequence, bytes(size - 8))
    return Packet(START + at_ns, link.ethernet(ipv4(body, source, destination, ip.ESP)))


def read(tmp_path, packets):
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap(packets))
    return read_esp_traffic(str(path))


def receiver(numbers):
    """What a receiver with a window sees in one SA's sequence numbers, one after another."""
    seen, highest, lowest = set(), None, None
    counts = dict.fromkeys(("repeated", "late", "out_of_order", "jumps"), 0)
    for number in numbers:
        if highest is not None and number <= highest - WINDOW:
            counts["late"] += 1
            continue
        if number in seen:
            counts["repeated"] += 1
        elif highest is not None and number < highest:
            counts["out_of_order"] += 1
        elif highest is not None and number > highest + 1:
            counts["jumps"] += 1
        seen.add(number)
        highest = max(number, highest or number)
        lowest = min(number, lowest or number)
    return {**counts, "lowest": lowest, "highest": highest, "missing": highest - lowest + 1 - len(seen)}


@pytest.mark.parametrize("block", [3, 100, 1 << 18])
@pytest.mark.parametrize("seed", range(3))
def test_sequence_numbers(tmp_path, monkeypatch, seed, block):
    monkeypatch.setattr(capture, "_BLOCK_PACKETS", block)
    random = Random(seed)
    sent = []
    for spi in (1, 2, 3):
        number = random.randrange(1, 3000)
        for _ in range(400):
            number += random.choices((1, 2, 700), (95, 4, 1))[0]
            place = random.random() * 400
            sent.append((place, spi, number))
            for _ in range(random.choices((0, 1), (9, 1))[0]):
                sent.append((place + random.choice((0.5, 30, 300)), spi, number))
    sent = [(spi, number) for _, spi, number in sorted(sent)]
    packets = [packet(spi, number, n * MS) for n, (spi, number) in enumerate(sent)]
    traffic = read(tmp_path, packets)
    assert sorted(sa.spi for sa in traffic.sas) == [1, 2, 3]
    for sa in traffic.sas:
        wanted = receiver([number for spi, number in sent if spi == sa.spi])
        assert {name: getattr(sa, name) for name in wanted} == wanted
        assert sa.packets == sum(spi == sa.spi for spi, _ in sent)


@pytest.mark.parametrize("block", [1, 3, 1 << 18])
def test_extended_sequence_numbers_count_on(tmp_path, monkeypatch, block):
    # sequence numbers of the sender, of which packets carry the lower half; also an SA that does not reach the end
    # of the cycle, and one that restarted far from the end, whose packets a receiver would drop
    monkeypatch.setattr(capture, "_BLOCK_PACKETS", block)
    end = 1 << 32
    sent = [end - 3, end - 2, end + 1, end - 1, end, end + 1, end + 4, end - 2000, end + 5]
    other, anew = [1, 3, 2], [end - (1 << 25), 1, end - (1 << 25) + 1]
    packets = [packet(1, number % end, n * MS) for n, number in enumerate(sent)]
    packets += [packet(2, number, n * MS) for n, number in enumerate(other)]
    packets += [packet(3, number, n * MS) for n, number in enumerate(anew)]
    traffic = read(tmp_path, packets)
    for sa, numbers in zip(traffic.sas, (sent, other, anew), strict=True):
        wanted = receiver(numbers)
        assert {name: getattr(sa, name) for name in wanted} == wanted
    assert (traffic.sas[0].highest, traffic.sas[0].missing, traffic.sas[0].late) == (end + 5, 2, 1)
    assert traffic.sas[2].late == 1


def test_sequence_numbers_and_bytes_counted_by_hand(tmp_path):
    numbers = [5, 6, 9, 8, 8, 10, 10]
    traffic = read(tmp_path, [packet(1, number, n * MS, 100 + n) for n, number in enumerate(numbers)])
    (sa,) = traffic.sas
    assert (sa.lowest, sa.highest, sa.missing, sa.jumps) == (5, 10, 1, 1)  # 7 is missing
    assert (sa.repeated, sa.out_of_order, sa.late) == (2, 1, 0)
    assert sa.esp_bytes == sum(range(100, 107))
    assert sa.bytes == sa.esp_bytes + 7 * 34
    assert sa.mean_bps == pytest.approx(8 * sa.bytes / 0.006)
    assert sa.histogram == ((128, 7),)
    assert (sa.packets, sa.frames, sa.unsized, sa.encapsulation) == (7, 7, 0, "ip")


def test_an_sa_is_a_direction_and_an_spi(tmp_path):
    packets = [
        packet(1, 1, 0),
        packet(1, 1, MS, source="192.0.2.2", destination="192.0.2.1"),
        packet(2, 1, 2 * MS),
        packet(1, 2, 3 * MS),
    ]
    result = [(sa.source, sa.destination, sa.spi, sa.packets) for sa in read(tmp_path, packets).sas]
    assert result == [
        ("192.0.2.1", "192.0.2.2", 1, 2),
        ("192.0.2.2", "192.0.2.1", 1, 1),
        ("192.0.2.1", "192.0.2.2", 2, 1),
    ]


@pytest.mark.parametrize("block", [2, 1 << 18])
def test_no_more_sas_than_memory_has_room_for(tmp_path, monkeypatch, block):
    monkeypatch.setattr(capture, "_BLOCK_PACKETS", block)
    monkeypatch.setattr(esp_traffic, "MAX_ESP_SAS", 3)
    spis = [1, 2, 1, 3, 4, 5, 3, 4]
    traffic = read(tmp_path, [packet(spi, n + 1, n * MS) for n, spi in enumerate(spis)])
    assert [(sa.spi, sa.packets) for sa in traffic.sas] == [(1, 2), (2, 1), (3, 2)]
    assert traffic.beyond == 3


def test_packet_sizes_are_summarised(tmp_path):
    sizes = (64, 65, 1536, 1537, 40)
    packets = [packet(1, n + 1, n, size) for n, size in enumerate(sizes)]
    assert read(tmp_path, packets).sas[0].histogram == ((64, 2), (128, 1), (1536, 1), (2048, 1))


def test_the_rate_counts_packets_and_bytes_per_interval(tmp_path):
    packets = [packet(1, 1, 0), packet(1, 2, MS // 2), packet(1, 3, 5 * MS)]
    traffic = read(tmp_path, packets)
    size = len(packets[0].data)
    assert traffic.interval_ns == MS
    assert traffic.sas[0].rate == (RateInterval(START, 2, 2 * size), RateInterval(START + 5 * MS, 1, size))


@pytest.mark.parametrize("block", [2, 1 << 18])
def test_intervals_become_longer(tmp_path, monkeypatch, block):
    monkeypatch.setattr(capture, "_BLOCK_PACKETS", block)
    packets = [packet(1, n + 1, n * 1000 * MS) for n in range(50)]
    traffic = read(tmp_path, packets)
    (sa,) = traffic.sas
    assert traffic.interval_ns == 256 * MS  # 49 s in 192 intervals
    assert sum(item.packets for item in sa.rate) == 50
    assert sum(item.bytes for item in sa.rate) == sa.bytes
    for one in sa.rate:
        assert one.start_ns % traffic.interval_ns == 0


def test_a_capture_without_esp_has_no_sas(tmp_path):
    assert read(tmp_path, [Packet(START, bytes(60))]).sas == []


def test_memory_is_of_sas_and_not_of_packets(tmp_path, monkeypatch):
    monkeypatch.setattr(capture, "_BLOCK_PACKETS", 1000)
    collected = esp_traffic._EspSaTable()
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap([packet(1, n, n * MS) for n in range(1, 9000)]))
    capture.read_esp(str(path), collected.add)
    kept = (collected._keys, collected._sums, collected._seen, collected._sizes, collected._rates)
    assert sum(table.height for table in kept) <= 1 + 1 + WINDOW + 1 + 200
