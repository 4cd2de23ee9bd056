"""Lines of libreswan 5.2's log, shortened: one fragmented request that is sent twice, one response."""

from ikeanalyze.lab.logs import pluto

HEADER = """\
10:00:00.{ms:06}: | **emit ISAKMP Message:
Nov 21 10:00:00.000001: |    initiator SPI: b4 26 33 f6  4b 8e 6c fe
Nov 21 10:00:00.000001: |    exchange type: ISAKMP_v2_{exchange} (0x23)
Nov 21 10:00:00.000001: |    flags: {flags} (0x8)
Nov 21 10:00:00.000001: |    Message ID: {number} (00 00 00 01)
Nov 21 10:00:00.000001: | ***emit IKEv2 {payload}:
Nov 21 10:00:00.000001: |    flags: none (0x0)
"""
TO = "through eth0 from 192.0.2.1:{port} to 192.0.2.2:{port} using UDP (for #1)"


def emit(exchange, number, payload="Encryption Payload", flags="ISAKMP_FLAG_v2_IKE_INIT"):
    return "Nov 21 " + HEADER.format(ms=1, exchange=exchange, number=number, payload=payload, flags=flags)


def sent(size, why, port=500):
    return f"Nov 21 10:00:00.000002: | sending {size} bytes for {why} {TO.format(port=port)}\n"


def lines(*parts):
    return "".join(parts).splitlines()


def test_a_message_counts_once_for_all_its_fragments_and_again_when_it_is_sent_again():
    fragment = emit("IKE_AUTH", 1, "Encrypted Fragment")
    found = pluto.parse_pluto_log(
        lines(
            emit("IKE_AUTH", 1),
            *(fragment, fragment),
            *(sent(540, "initiating IKE_AUTH"), sent(200, "initiating IKE_AUTH")),
            *(sent(540, "EVENT_RETRANSMIT"), sent(200, "EVENT_RETRANSMIT")),
            'Nov 21 10:00:01.000000: "lab" #1: initiator established IKE SA; authenticated peer\n',
        )
    )
    assert found.messages == ["IKE_AUTH request 1"] * 2
    assert [one.bytes for one in found.sent] == [540, 200, 540, 200]
    assert (found.requests_retransmitted, found.responses_retransmitted, found.established) == (1, 0, 1)


def test_a_response_that_is_sent_again_is_no_request():
    found = pluto.parse_pluto_log(
        lines(
            emit("IKE_SA_INIT", 0, "Security Association Payload", "ISAKMP_FLAG_v2_MSG_RESPONSE"),
            sent(240, "Respond to IKE_SA_INIT"),
            emit("INFORMATIONAL", 0),
            sent(80, "DELETE_IKE_FAMILY"),
            sent(240, "IKE_SA_INIT responder retransmit"),
        )
    )
    assert found.messages == ["IKE_SA_INIT response 0", "INFORMATIONAL request 0", "IKE_SA_INIT response 0"]
    assert (found.requests_retransmitted, found.responses_retransmitted) == (0, 1)


def test_the_marker_of_port_4500_is_no_byte_of_the_message():
    found = pluto.parse_pluto_log(lines(emit("IKE_AUTH", 1), sent(256, "initiating IKE_AUTH", 4500)))
    assert found.sent[0].bytes == 252


def test_how_far_a_handshake_has_come():
    said = [
        'Nov 21 23:59:59.990000: "lab" #1: initiating IKEv2 connection to 192.0.2.2 using UDP\n',
        "Nov 22 00:00:00.000001: | ikev2 I 0x00000000000000ab 0x00000000000000cd sha256:0x aes256:0x\n",
        'Nov 22 00:00:00.010000: "lab" #1: initiator established IKE SA; authenticated peer\n',
        'Nov 22 00:00:00.010001: ERROR: "lab" #2: netlink response for Add SA esp.1@192.0.2.2: Protocol not supported\n',
        'Nov 22 00:00:00.020000: "lab" #2: CREATE_CHILD_SA failed with error notification NO_PROPOSAL_CHOSEN\n',
    ]
    assert pluto.read_handshake_progress(said[:1]) == pluto.PlutoHandshakeProgress()
    found = pluto.read_handshake_progress(said)
    assert (found.established, found.child, found.ms) == (True, False, 20.0)
    assert found.why == "no CHILD_SA: kernel error: Protocol not supported"
    assert pluto.find_spis(said) == ("00000000000000ab", "00000000000000cd")
    assert pluto.find_spis(said[:1]) == (None, None)


def test_errors_that_were_got():
    said = [
        '"lab" #1: IKE SA authentication request rejected by peer: AUTHENTICATION_FAILED',
        '"lab" #1: dropping unexpected IKE_SA_INIT message containing NO_PROPOSAL_CHOSEN notification; message payloads: N',
        '"lab" #1: processing decrypted IKE_AUTH request from 192.0.2.1:500 containing SK{IDi,AUTH}',
    ]
    assert pluto.parse_pluto_log(said).refused == {"AUTHENTICATION_FAILED": 1, "NO_PROPOSAL_CHOSEN": 1}


def test_why_it_does_not_start():
    said = ["FATAL ERROR: NSS: initialization failed: bad database.", "more"]
    assert pluto.find_startup_error(said) == said[0]
    assert pluto.find_startup_error(['"lab": added IKEv2 connection']) is None
