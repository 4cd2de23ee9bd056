import pytest

from ikeanalyze.wire.registries import DashedRegistry, Registry, get_name


class Plain(Registry):
    ONE_THING = 1
    OTHER = 2, "the other"


class Dashed(DashedRegistry):
    ONE_THING = 1
    OTHER = 2, "the other_one"


@pytest.mark.parametrize(
    ("registry", "value", "name"),
    [
        (Plain, 1, "ONE_THING"),
        (Plain, 2, "the other"),
        (Dashed, 1, "ONE-THING"),
        (Dashed, 2, "the other_one"),
        (Plain, 3, "3"),
        (Plain, -1, "-1"),
        (Plain, 2**70, str(2**70)),
    ],
)
def test_unknown_values_are_named_by_their_number(registry, value, name):
    assert get_name(registry, value) == name


def test_members_are_numbers():
    assert Plain.OTHER == 2
    assert Plain(2) is Plain.OTHER
    assert Plain.OTHER.label == "the other"
