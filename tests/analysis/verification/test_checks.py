from ikeanalyze.analysis.verification.checks import compare_values, compute_digest, describe_message, name_sender


def test_digests_are_shortened():
    # the first digits of SHA-256 of "abc" (FIPS 180-4, example)
    assert compute_digest(b"abc") == "ba7816bf"


def test_results_sides_and_messages_have_names():
    assert compare_values(b"x", b"x") == "passed"
    assert compare_values(b"x", b"y") == "failed"
    assert name_sender(True) == "initiator"
    assert name_sender(False) == "responder"
    assert describe_message(35, 2, True) == "IKE_AUTH 2 response"
    assert describe_message(250, 0, False) == "250 0 request"
