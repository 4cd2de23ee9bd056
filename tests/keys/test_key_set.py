from ikeanalyze.keys.key_set import Derivation, EspKey, KeySet, Origin, Phase1Key


def test_no_repr_has_a_secret():
    secret = b"top secret key 1"
    origin = Origin("a", 1)
    derivation = Derivation(secret, (secret,), secret, secret, "PRF_HMAC_SHA1")
    things = [
        derivation,
        KeySet(
            origin=origin,
            spi_i=bytes(8),
            spi_r=bytes(8),
            encryption=12,
            integrity=2,
            derivation=derivation,
            **dict.fromkeys(("sk_ei", "sk_er", "sk_ai", "sk_ar", "sk_d", "sk_pi", "sk_pr"), secret),
        ),
        Phase1Key(origin, bytes(8), secret),
        EspKey(origin, "IPv4", "*", "*", 1, "NULL", secret, "NULL", secret),
    ]
    assert "secret key" not in repr(things)
    assert "PRF_HMAC_SHA1" in repr(things)
