from ikeanalyze.lab.daemonlog import read

LOG = """\
1.1 08[ENC] <lab|1> generating IKE_SA_INIT request 0 [ SA KE No ]
1.1 08[NET] <lab|1> sending packet: from 192.0.2.1[500] to 192.0.2.2[500] (272 bytes)
1.4 11[IKE] <lab|1> retransmit 1 of request with message ID 0
1.4 11[NET] <lab|1> sending packet: from 192.0.2.1[500] to 192.0.2.2[500] (272 bytes)
1.5 09[ENC] <lab|1> generating IKE_AUTH request 1 [ IDi AUTH ]
1.5 09[ENC] <lab|1> generating IKE_AUTH request 1 [ EF(1/2) ]
1.5 09[ENC] <lab|1> generating IKE_AUTH request 1 [ EF(2/2) ]
1.5 09[NET] <lab|1> sending packet: from 192.0.2.1[4500] to 192.0.2.2[4500] (1236 bytes)
1.5 09[NET] <lab|1> sending packet: from 192.0.2.1[4500] to 192.0.2.2[4500] (292 bytes)
1.6 09[IKE] <lab|1> received AUTHENTICATION_FAILED notify error
"""


def test_each_message_and_datagram_once_for_each_time_that_it_was_sent():
    found = read(LOG.splitlines())
    assert found.messages == ["IKE_SA_INIT request 0", "IKE_SA_INIT request 0", "IKE_AUTH request 1"]
    assert [one.bytes for one in found.sent] == [272, 272, 1236, 292]
    assert found.requests_again == 1
    assert found.refused == {"AUTHENTICATION_FAILED": 1}
    assert found.established == 0
