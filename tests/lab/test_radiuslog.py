from ikeanalyze.lab.radiuslog import Packet, read

#: FreeRADIUS 3.2, shortened.
LOG = """\
Ready to process requests
(0) Received Access-Request Id 30 from 203.0.113.1:35274 to 203.0.113.2:1812 length 148
(0)   User-Name = "initiator.lab"
(0) eap: Peer sent EAP Response (code 2) ID 0 length 18
(0) Sent Access-Challenge Id 30 from 203.0.113.2:1812 to 203.0.113.1:35274 length 80
(1) Received Access-Request Id 31 from 203.0.113.1:35274 to 203.0.113.2:1812 length 170
(1) Sent Access-Accept Id 31 from 203.0.113.2:1812 to 203.0.113.1:35274 length 59
(1) Finished request
"""


def test_each_packet_in_its_order():
    found = read(LOG.splitlines())
    assert [(one.code, one.identifier, one.length) for one in found] == [
        ("Access-Request", 30, 148),
        ("Access-Challenge", 30, 80),
        ("Access-Request", 31, 170),
        ("Access-Accept", 31, 59),
    ]
    assert found[1] == Packet("Access-Challenge", 30, "203.0.113.2", 1812, "203.0.113.1", 35274, 80)
