from ikeanalyze.keys.charon.model import CharonLog, LoggedAuth, LoggedIntAuth, PpkKeys
from ikeanalyze.keys.key_set import Origin


def test_no_repr_has_a_secret():
    secret = b"top secret key 1"
    origin = Origin("a", 1)
    log = CharonLog(
        [LoggedIntAuth(origin, secret, sk_p=secret, value=secret)],
        [LoggedAuth(origin, None, *[secret] * 3, "EAP", secret, secret)],
        [PpkKeys(origin, None, *[secret] * 4)],
        [secret],
    )
    assert "secret key" not in repr(log)
    assert "EAP" in repr(log)
