from ikeanalyze.keys.charon.model import CharonLog, LoggedAuth, LoggedIntAuth, LoggedMsk, PpkKeys
from ikeanalyze.keys.key_set import Origin


def test_no_repr_has_a_secret():
    secret = b"top secret key 1"
    origin = Origin("a", 1)
    log = CharonLog(
        "6.1.0",
        (LoggedIntAuth(origin, "initiator", 1, None, secret, secret, secret),),
        (LoggedAuth(origin, None, "EAP", None, *[secret] * 5),),
        (PpkKeys(origin, None, *[secret] * 4),),
        (LoggedMsk(origin, secret),),
    )
    assert "secret key" not in repr(log)
    assert "EAP" in repr(log)
