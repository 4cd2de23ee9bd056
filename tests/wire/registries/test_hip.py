import pytest

from ikeanalyze.wire.registries import name_of
from ikeanalyze.wire.registries.hip import PacketType, ParameterType


@pytest.mark.parametrize(
    ("registry", "value", "name"),
    [
        (PacketType, 1, "I1"),
        (PacketType, 4, "R2"),
        (PacketType, 19, "CLOSE_ACK"),
        (PacketType, 9, "9"),
        (ParameterType, 257, "PUZZLE"),
        (ParameterType, 61697, "HIP_SIGNATURE"),
    ],
)
def test_names(registry, value, name):
    assert name_of(registry, value) == name
