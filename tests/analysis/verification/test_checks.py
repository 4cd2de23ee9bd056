from ikeanalyze.analysis.verification.checks import compare_values, compute_digest, describe_message, name_sender


def test_digests_are_shortened():
    # the first digits of SHA-256 of "abc" (FIPS 180-4, example)
    assert compute_digest(b"abc") == "ba7816bf"


def test_only_a_difference_has_a_reason():
    # the first digits of `printf x | sha256sum`, and of y
    x, y = "2d711642", "a1fce436"
    passed = {"outcome": "passed", "why": None, "expected": x, "found": x}
    assert compare_values(b"x", b"x", "they differ") == passed
    failed = {"outcome": "failed", "why": "they differ", "expected": x, "found": y}
    assert compare_values(b"x", b"y", "they differ") == failed


def test_sides_and_messages_have_names():
    assert name_sender(True) == "initiator"
    assert name_sender(False) == "responder"
    assert describe_message(35, 2, True) == "IKE_AUTH 2 response"
    assert describe_message(250, 0, False) == "250 0 request"
