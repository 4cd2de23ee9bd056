import pytest

from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.hip import HipPacketType
from ikeanalyze.wire.registries.hip_parameters import HipParameterType


@pytest.mark.parametrize(
    ("registry", "value", "name"),
    [
        (HipPacketType, 1, "I1"),
        (HipPacketType, 4, "R2"),
        (HipPacketType, 19, "CLOSE_ACK"),
        (HipPacketType, 9, "9"),
        (HipParameterType, 257, "PUZZLE"),
        (HipParameterType, 61697, "HIP_SIGNATURE"),
    ],
)
def test_values_have_names(registry, value, name):
    assert get_name(registry, value) == name
