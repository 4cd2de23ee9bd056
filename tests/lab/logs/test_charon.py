from ikeanalyze.lab.logs.charon import parse_charon_log

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
    charon_log = parse_charon_log(LOG.splitlines())
    assert charon_log.messages == ["IKE_SA_INIT request 0", "IKE_SA_INIT request 0", "IKE_AUTH request 1"]
    assert [item.bytes for item in charon_log.sent] == [272, 272, 1236, 292]
    assert charon_log.requests_retransmitted == 1
    assert charon_log.refused == {"AUTHENTICATION_FAILED": 1}
    assert charon_log.established == 0


IKEV1 = """\
1.1 09[ENC] <c|1> generating ID_PROT request 0 [ SA V V V ]
1.1 09[NET] <c|1> sending packet: from 10.1.0.2[500] to 10.2.0.2[500] (180 bytes)
1.4 10[IKE] <c|1> sending retransmit 1 of request message ID 0, seq 1
1.4 10[NET] <c|1> sending packet: from 10.1.0.2[500] to 10.2.0.2[500] (180 bytes)
1.5 11[ENC] <c|1> generating ID_PROT request 0 [ ID CERT SIG ]
1.5 11[ENC] <c|1> generating ID_PROT request 0 [ FRAG(1) ]
1.5 11[ENC] <c|1> generating ID_PROT request 0 [ FRAG(2/2) ]
1.5 11[NET] <c|1> sending packet: from 10.1.0.2[4500] to 10.2.0.2[4500] (468 bytes)
1.5 11[NET] <c|1> sending packet: from 10.1.0.2[4500] to 10.2.0.2[4500] (100 bytes)
1.6 12[ENC] <c|1> generating INFORMATIONAL_V1 request 946438485 [ HASH D ]
1.6 12[NET] <c|1> sending packet: from 10.1.0.2[4500] to 10.2.0.2[4500] (92 bytes)
"""


def test_messages_of_ikev1_are_read():
    charon_log = parse_charon_log(IKEV1.splitlines())
    assert charon_log.messages == [*["ID_PROT request 0"] * 3, "INFORMATIONAL_V1 request 946438485"]
    assert [item.bytes for item in charon_log.sent] == [180, 180, 468, 100, 92]
    assert (charon_log.requests_retransmitted, charon_log.responses_retransmitted) == (1, 0)


def test_a_rekeyed_ike_sa_is_established_too():
    reported = ("1 14[IKE] <lab|1> IKE_SA lab[2] rekeyed between 192.0.2.1[a]...192.0.2.2[b]",)
    assert parse_charon_log(reported).established == 1


#: Reauthentication: the first message of the new IKE SA, 2, is generated while charon is busy with 1.
REAUTHENTICATION = """\
1.1 09[ENC] <lab|1> generating IKE_SA_INIT request 0 [ SA KE No ]
1.1 09[NET] <lab|1> sending packet: from 192.0.2.1[500] to 192.0.2.2[500] (272 bytes)
1.2 10[IKE] <lab|1> reauthenticating IKE_SA lab[1]
1.2 10[ENC] <lab|1> generating IKE_SA_INIT request 0 [ SA KE No ]
1.2 10[NET] <lab|1> sending packet: from 192.0.2.1[4500] to 192.0.2.2[4500] (272 bytes)
1.6 14[IKE] <lab|2> retransmit 1 of request with message ID 0
1.6 14[NET] <lab|2> sending packet: from 192.0.2.1[4500] to 192.0.2.2[4500] (272 bytes)
"""


def test_a_retransmission_of_an_ike_sa_that_was_begun_in_another_ones_name():
    assert parse_charon_log(REAUTHENTICATION.splitlines()).messages == ["IKE_SA_INIT request 0"] * 3


#: Two strongSwans 6.1 rekey the IKE SA at the same time, over a link with a round-trip time of 0.8 s: excerpt of the
#: log of the one whose IKE SA, 2, is redundant. Its deletion is generated while charon is busy with 1, and repeated
#: after the other new IKE SA, 3, has a request with the same message ID.
SIMULTANEOUS_REKEYING = """\
39.615 15[IKE] <lab|1> retransmit 2 of request with message ID 0
39.615 15[NET] <lab|1> sending packet: from 192.0.2.2[4500] to 192.0.2.1[4500] (240 bytes)
39.668 03[ENC] <lab|1> generating INFORMATIONAL request 0 [ D ]
39.668 03[NET] <lab|1> sending packet: from 192.0.2.2[4500] to 192.0.2.1[4500] (80 bytes)
39.668 03[IKE] <lab|1> IKE_SA lab[3] rekeyed between 192.0.2.2[responder.lab]...192.0.2.1[initiator.lab]
39.672 11[ENC] <lab|3> generating CREATE_CHILD_SA request 0 [ N(REKEY_SA) SA No TSi TSr ]
39.672 11[NET] <lab|3> sending packet: from 192.0.2.2[4500] to 192.0.2.1[4500] (208 bytes)
39.968 12[IKE] <lab|2> retransmit 1 of request with message ID 0
39.968 12[NET] <lab|2> sending packet: from 192.0.2.2[4500] to 192.0.2.1[4500] (80 bytes)
39.972 09[IKE] <lab|3> retransmit 1 of request with message ID 0
39.972 09[NET] <lab|3> sending packet: from 192.0.2.2[4500] to 192.0.2.1[4500] (208 bytes)
40.418 11[IKE] <lab|2> retransmit 2 of request with message ID 0
40.418 11[NET] <lab|2> sending packet: from 192.0.2.2[4500] to 192.0.2.1[4500] (80 bytes)
"""
BEFORE = """\
38.864 10[ENC] <lab|1> generating CREATE_CHILD_SA request 0 [ SA No KE ]
38.864 10[NET] <lab|1> sending packet: from 192.0.2.2[4500] to 192.0.2.1[4500] (240 bytes)
"""


def test_a_retransmission_has_the_name_of_the_message_of_its_size():
    child, deletion = "CREATE_CHILD_SA request 0", "INFORMATIONAL request 0"
    charon_log = parse_charon_log((BEFORE + SIMULTANEOUS_REKEYING).splitlines())
    assert charon_log.messages == [child, child, deletion, child, deletion, child, deletion]
    assert charon_log.requests_retransmitted == 4


def test_threads_that_log_at_the_same_time_are_told_apart():
    first, second = "09[IKE] <lab|2> retransmit 1 of", "12[IKE] <lab|3> retransmit 1 of"
    lines = (BEFORE + SIMULTANEOUS_REKEYING).splitlines()[:9]
    lines += [f"1 {first} request with message ID 0", f"1 {second} request with message ID 0"]
    lines += ["1 12[NET] <lab|3> sending packet: from 192.0.2.2[4500] to 192.0.2.1[4500] (208 bytes)"]
    lines += ["1 09[NET] <lab|2> sending packet: from 192.0.2.2[4500] to 192.0.2.1[4500] (80 bytes)"]
    assert parse_charon_log(lines).messages[-2:] == ["INFORMATIONAL request 0", "CREATE_CHILD_SA request 0"]


def test_a_retransmission_whose_datagram_is_not_in_the_log_has_the_latest_name():
    lines = (BEFORE + SIMULTANEOUS_REKEYING).splitlines()
    assert parse_charon_log(lines[:3]).messages[-1] == "CREATE_CHILD_SA request 0"
    assert parse_charon_log(lines[2:3]).messages == ["? request 0"]
