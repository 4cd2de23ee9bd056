from ikeanalyze.lab.logs.freeradius import LoggedRadiusPacket, parse_freeradius_log

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
    freeradius_log = parse_freeradius_log(LOG.splitlines())
    assert [(item.code, item.identifier, item.length) for item in freeradius_log] == [
        ("Access-Request", 30, 148),
        ("Access-Challenge", 30, 80),
        ("Access-Request", 31, 170),
        ("Access-Accept", 31, 59),
    ]
    assert freeradius_log[1] == LoggedRadiusPacket(
        "Access-Challenge", 30, "203.0.113.2", 1812, "203.0.113.1", 35274, 80
    )


#: A request that was sent twice: the capture of this log has two of 154 bytes with Id 39, and two responses.
AGAIN = """\
(4) Sent Access-Challenge Id 38 from 203.0.113.2:1812 to 203.0.113.1:45213 length 1086
(5) Received Access-Request Id 39 from 203.0.113.1:45213 to 203.0.113.2:1812 length 154
(5) Sent Access-Challenge Id 39 from 203.0.113.2:1812 to 203.0.113.1:45213 length 994
(5) Finished request
(5) Sending duplicate reply to client responder port 45213 - ID: 39
(6) Received Access-Request Id 40 from 203.0.113.1:45213 to 203.0.113.2:1812 length 1180
"""


def test_a_request_that_came_again_and_its_answer():
    freeradius_log = parse_freeradius_log(AGAIN.splitlines())
    assert [(item.identifier, item.length) for item in freeradius_log] == [
        *((38, 1086), (39, 154), (39, 994)),
        *((39, 154), (39, 994), (40, 1180)),
    ]
