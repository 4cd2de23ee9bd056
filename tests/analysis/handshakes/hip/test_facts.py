"""What the packets of a base exchange tell, counted by hand from what the test puts into them."""

import struct

import pytest

from tests.analysis.analyse_captures import MS, Trace, analyse, only
from tests.craft import hip
from tests.craft.hip import Association


def handshake(association, packets):
    trace = Trace()
    for place, packet in enumerate(packets):
        trace.ip(place * 10 * MS, association.ip(packet))
    return only(analyse(trace))


def methods(row):
    return row["auth_initiator"], row["auth_responder"], row["auth_eap"], row["auth_guessed"]


def suite(row):
    return row["encryption"], row["prf"], row["integrity"], row["key_exchange"]


def test_facts_of_a_base_exchange_are_collected():
    association = Association(1)
    row = handshake(association, association.setup())
    # the HITs are of suite 1: RSA, DSA/SHA-256
    assert suite(row) == ("AES-CBC-128", "HMAC-SHA2-256", "HMAC-SHA2-256", "ECP-256")
    assert methods(row) == ("rsa", "rsa", None, False)
    assert row["offered"] == [
        "DIFFIE_HELLMAN(ECP-256)",
        "HIP_CIPHER(AES-CBC-128, NULL)",
        "ESP_TRANSFORM(AES-CBC-128/HMAC-SHA2-256, AES-CBC-256/HMAC-SHA2-256)",
    ]
    assert row["initiator_supports"] == ["DH_GROUP_LIST(ECP-256)", "TRANSPORT_FORMAT_LIST(ESP_TRANSFORM)"]
    assert row["responder_supports"] == [
        "HIT_SUITE_LIST(RSA,DSA/SHA-256, ECDSA/SHA-384)",
        "TRANSPORT_FORMAT_LIST(ESP_TRANSFORM)",
    ]


def test_facts_of_a_diet_exchange_are_collected():
    association = Association(2, "DEX")
    row = handshake(association, association.setup())
    assert suite(row) == ("AES-CTR-128", "AES-CMAC", "AES-CMAC", "X25519")
    assert methods(row) == ("ecdh", "ecdh", None, False)


@pytest.mark.parametrize("kept", [0, 1])
def test_one_side_alone_tells_what_it_says(kept):
    association = Association(3)
    i1, r1, i2, r2 = association.setup()
    row = handshake(association, [[i1, i2], [r1, r2]][kept])
    assert methods(row) == [("rsa", None, None, False), (None, "rsa", None, False)][kept]
    assert suite(row)[0] == ["AES-CBC-128", None][kept]


def test_ecdsa_with_an_encrypted_identity():
    association = Association(
        4, hits=(b"\x20\x01\x00\x22" + bytes(11) + b"\1", b"\x20\x01\x00\x22" + bytes(11) + b"\2")
    )
    mine = hip.host_id(hip.ECDSA, b"\0\2" + bytes(96))
    signature = struct.pack(">H", hip.ECDSA) + bytes(96)
    puzzle, solution = (hip.PUZZLE, bytes(52)), (hip.SOLUTION, bytes(100))
    cipher = hip.numbers16(hip.HIP_CIPHER, 4)
    r1 = association.message(hip.R1, [puzzle, cipher, mine, (hip.HIP_SIGNATURE_2, signature)], from_initiator=False)
    i2 = association.message(
        hip.I2,
        [
            solution,
            cipher,
            (hip.ENCRYPTED, bytes(132)),
            (hip.HIP_MAC, bytes(48)),
            (hip.HIP_SIGNATURE, signature),
        ],
    )
    row = handshake(association, [association.i1(), r1, i2, association.r2()])
    assert methods(row) == ("ecdsa", "ecdsa-384", None, False)
    assert suite(row) == ("AES-CBC-256", "HMAC-SHA2-384", "HMAC-SHA2-384", None)


def test_an_algorithm_without_a_name():
    association = Association(5)
    r1 = association.message(
        hip.R1,
        [(hip.PUZZLE, bytes(36)), hip.host_id(77, b"key"), (hip.HIP_SIGNATURE_2, b"\0\x4d")],
        from_initiator=False,
    )
    assert methods(handshake(association, [association.i1(), r1])) == (None, "77", None, False)


def test_a_hit_of_version_1_names_no_hash():
    association = Association(6, hits=(b"\x20\x01\x00\x11" + bytes(12), b"\x20\x01\x00\x12" + bytes(12)))
    row = handshake(association, association.setup())
    assert suite(row) == ("AES-CBC-128", None, None, "ECP-256")


def test_static_keys_of_which_group_is_not_known():
    association = Association(7, "DEX")
    i1, _, i2, r2 = association.setup()
    two = association.message(
        hip.R1,
        [(hip.PUZZLE, bytes(36)), (hip.DH_GROUP_LIST, b"\x0c\x07"), hip.host_id(hip.ECDH, bytes(34))],
        from_initiator=False,
    )
    assert suite(handshake(association, [i1, two, i2, r2]))[3] is None
