import pytest

from ikeanalyze.analysis.tables.fail_conditions import NO_HANDSHAKE, UNDECRYPTED, FailCondition, parse_conditions
from ikeanalyze.analysis.tables.filter_language import FilterError, parse_filter


def test_an_outcome_is_the_filter_of_this_outcome():
    for outcome in ("failed", "unanswered", "half-open", "cut"):
        (condition,) = parse_conditions(outcome)
        assert condition.text == outcome
        assert condition.words.conditions == parse_filter(f"outcome:{outcome}").conditions


def test_conditions_are_separated_by_commas():
    conditions = parse_conditions("undecrypted, no-handshake,setup_ms>=10.5,!auth:psk")
    assert conditions[:2] == (FailCondition(UNDECRYPTED, None), FailCondition(NO_HANDSHAKE, None))
    assert [condition.words for condition in conditions[2:]] == [
        parse_filter("setup_ms>=10.5"),
        parse_filter("!auth:psk"),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("faild", "unknown condition 'faild'; did you mean failed? there are failed, unanswered, half-open, cut, "),
        ("retransmissions", "unknown condition 'retransmissions'; did you mean retransmissions? there are "),
        ("", "unknown condition ''; there are "),
        ("failed,", "unknown condition ''; there are "),
        ("failed bytes>1", "unknown condition 'failed bytes>1'; did you mean failed? there are "),
        ("rtxx>1", "unknown name 'rtxx' in 'rtxx>1'; did you mean rtx? "),
        ("setup_ms>10ms", "'10ms' is not a number of milliseconds"),
        ("192.0.2.1", "unknown condition '192.0.2.1'; there are "),
    ],
)
def test_other_texts_are_not_conditions(text, problem):
    with pytest.raises(FilterError) as error:
        parse_conditions(text)
    assert str(error.value).startswith(problem)
