from ikeanalyze.keys.keyset import Derivation, EspKey, KeySet, Origin, Phase1Key


def test_no_repr_has_a_secret():
    secret = b"top secret key 1"
    origin = Origin("a", 1)
    derivation = Derivation(secret, (secret,), secret, secret, "PRF_HMAC_SHA1")
    things = [
        derivation,
        KeySet(origin, bytes(8), bytes(8), 12, 2, *[secret] * 7, derivation=derivation),
        Phase1Key(origin, bytes(8), secret),
        EspKey(origin, "IPv4", "*", "*", 1, "NULL", secret, "NULL", secret),
    ]
    assert "secret key" not in repr(things)
    assert "PRF_HMAC_SHA1" in repr(things)
