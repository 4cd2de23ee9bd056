import pytest

from ikeanalyze.io.number_texts import suggest_number


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("10ms", "; write 10 without a unit"),
        ("1.5 s", "; write 1.5 without a unit"),
        ("20%", ". 20 % is written 0.2"),
        ("0.5 %", ". 0.5 % is written 0.005"),
        ("abc", ""),
        ("10", ""),
        ("", ""),
        ("1:2ms", ""),
    ],
)
def test_a_number_with_a_unit_is_written_without(text, advice):
    assert suggest_number(text) == advice
