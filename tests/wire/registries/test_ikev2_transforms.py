import pytest

from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries import ikev2_transforms as ours
from tests.wire.registries.oracle import normal, values

#: Long spellings of tshark, by what our short ones stand for.
WORDS = (
    ("AES-GCM with a 8 octet ICV", "AES-GCM-8"),
    ("AES-GCM with a 12 octet ICV", "AES-GCM-12"),
    ("AES-GCM with a 16 octet ICV", "AES-GCM-16"),
    ("with an 8-octet ICV", "8"),
    ("with a 12-octet ICV", "12"),
    ("with a 16-octet ICV", "16"),
)


def short(name, prefix):
    for long, brief in WORDS:
        name = name.replace(long, brief)
    return normal(name).removeprefix(prefix)


@pytest.mark.parametrize(
    ("kind", "number", "name"),
    [
        (1, 12, "AES-CBC"),
        (1, 20, "AES-GCM-16"),
        (1, 28, "CHACHA20-POLY1305"),
        (1, 3, "3DES"),
        (2, 5, "HMAC-SHA2-256"),
        (3, 12, "HMAC-SHA2-256-128"),
        (4, 14, "MODP-2048"),
        (4, 19, "ECP-256"),
        (4, 28, "BRAINPOOL-P256R1"),
        (4, 31, "X25519"),
        (4, 32, "X448"),
        (6, 36, "ML-KEM-768"),
        (12, 37, "ML-KEM-1024"),
        (7, 0, "NONE"),
        (4, 33, "GOST3410-2012-256"),
        (5, 1, "ESN"),
        (13, 4, "KW-ARX"),
        (4, 1024, "1024"),
    ],
)
def test_transform_ids_have_names(kind, number, name):
    assert get_name(ours.TRANSFORM_IDS[kind], number) == name


def test_every_type_has_its_ids():
    assert set(ours.TRANSFORM_IDS) == set(ours.TransformType) == set(range(1, 15))


@pytest.mark.tshark
@pytest.mark.parametrize(
    ("registry", "field", "prefix"),
    [
        (ours.Encryption, "isakmp.tf.id.encr", "ENCR"),
        (ours.Prf, "isakmp.tf.id.prf", "PRF"),
        (ours.Integrity, "isakmp.tf.id.integ", "AUTH"),
    ],
)
def test_names_against_tshark(registry, field, prefix):
    # 4 and 8 of the PRFs, misspelt there: PRF_AES128_CBC, PRF_AES128_CMAC6
    misspelt = {ours.Prf.AES128_XCBC, ours.Prf.AES128_CMAC} if registry is ours.Prf else set()
    for number, names in values()[field].items():
        known = {short(name, prefix) for name in names}
        if not any(name.startswith(("RESERVED", "UNASSIGNED")) for name in known):
            assert number in misspelt or normal(get_name(registry, number)) in known


@pytest.mark.tshark
def test_key_exchange_methods_against_tshark():
    known = values()["isakmp.tf.id.dh"]
    for method in ours.KeyExchangeMethod:
        if method == 0 or method not in known:
            continue
        family, _, size = method.label.partition("-")
        name = known[method][0].upper()
        assert all(part in name for part in size.removeprefix("P").removesuffix("R1").replace("KEM-", "").split("-"))
        if family in ("MODP", "ECP", "BRAINPOOL"):
            assert family in name


def test_types_against_tshark(tshark):
    known = values(tshark)["isakmp.tf.type"]
    # type 5 was renamed from ESN by RFC 9827, type 4 from D-H by RFC 9370; 6 to 12 are new in 4.4
    compared = [kind for kind in ours.TransformType if kind in known and kind not in (4, 5)]
    for kind in compared:
        assert kind.label == known[kind][0].rpartition("(")[2].rstrip(")")  # "Integrity Algorithm (INTEG)", "ADDKE1"
    assert len(compared) == (3 if tshark.version < (4, 4) else 10)
