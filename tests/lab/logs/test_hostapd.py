from ikeanalyze.lab.logs.freeradius import LoggedRadiusPacket
from ikeanalyze.lab.logs.hostapd import parse_hostapd_log

#: Of hostapd 2.11 -dd; lines about other things are left out.
LOG = """\
RADIUS SRV: Received 154 bytes from 203.0.113.1:49463
RADIUS message: code=1 (Access-Request) identifier=94 length=154
EAP-AKA: Generating Identity
RADIUS SRV: Reply to 203.0.113.1:49463
RADIUS message: code=11 (Access-Challenge) identifier=94 length=58
RADIUS SRV: Received 203 bytes from 203.0.113.1:49463
RADIUS message: code=1 (Access-Request) identifier=96 length=203
RADIUS SRV: Reply to 203.0.113.1:49463
RADIUS message: code=2 (Access-Accept) identifier=96 length=195
"""


def test_packets_in_order_with_both_ends():
    packets = parse_hostapd_log(LOG.splitlines(), "203.0.113.2")
    assert [(packet.code, packet.identifier, packet.length) for packet in packets] == [
        ("Access-Request", 94, 154),
        ("Access-Challenge", 94, 58),
        ("Access-Request", 96, 203),
        ("Access-Accept", 96, 195),
    ]
    assert packets[0] == LoggedRadiusPacket("Access-Request", 94, "203.0.113.1", 49463, "203.0.113.2", 1812, 154)
    assert packets[1] == LoggedRadiusPacket("Access-Challenge", 94, "203.0.113.2", 1812, "203.0.113.1", 49463, 58)


def test_a_log_without_packets():
    assert parse_hostapd_log(["lab: Setup of interface done."], "203.0.113.2") == []
