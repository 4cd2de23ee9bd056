from ikeanalyze.analysis.checks import compared, digest, message_name, side_of


def test_digests_are_short():
    # the first digits of SHA-256 of "abc" (FIPS 180-4, example)
    assert digest(b"abc") == "ba7816bf"


def test_results_sides_and_messages_have_names():
    assert compared(b"x", b"x") == "passed"
    assert compared(b"x", b"y") == "failed"
    assert side_of(True) == "initiator"
    assert side_of(False) == "responder"
    assert message_name(35, 2, True) == "IKE_AUTH 2 response"
    assert message_name(250, 0, False) == "250 0 request"
