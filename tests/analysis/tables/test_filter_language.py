import pytest

from ikeanalyze.analysis.tables.filter_language import (
    NAMES,
    NUMBERS,
    TEXTS,
    FilterCondition,
    FilterError,
    NumberWord,
    TextWord,
    parse_filter,
)


def refused(text: str, **options: bool) -> str:
    with pytest.raises(FilterError) as error:
        parse_filter(text, **options)
    return str(error.value)


def test_each_word_is_a_condition():
    assert parse_filter("Outcome:Failed  !bytes>=2,000 ML-KEM").conditions == (
        FilterCondition(TextWord(("outcome",), "failed")),
        FilterCondition(NumberWord(NUMBERS["bytes"], ">=", 2000, 0), negated=True),
        FilterCondition(TextWord((), "ml-kem")),
    )
    assert parse_filter("setup=13.10").conditions == (FilterCondition(NumberWord(NUMBERS["setup"], "=", 13.1, 2)),)


def test_a_name_that_does_not_exist_is_an_error_with_the_nearest_one():
    allowed = f"there are {', '.join(NAMES)}"
    assert refused("outcom:failed") == f"unknown name 'outcom' in 'outcom:failed'; did you mean outcome? {allowed}"
    assert refused("!RTXX>2", unfinished=True) == f"unknown name 'rtxx' in '!rtxx>2'; did you mean rtx? {allowed}"
    assert refused("zzz<") == f"unknown name 'zzz' in 'zzz<'; {allowed}"


@pytest.mark.parametrize("text", ["fe:80::1", "dead:beef::1", "2001:db8::1", "[::1]:500", "12:30:05.5", "é:>", "::"])
def test_addresses_and_times_are_text_not_names(text):
    assert parse_filter(text).conditions == (FilterCondition(TextWord((), text)),)


def test_a_value_has_to_fit_its_name():
    assert refused("bytes:2000") == "bytes is a number: write bytes=2000, bytes<2000 or bytes>2000"
    assert refused("outcome=failed") == "outcome is text: write outcome:failed"
    assert refused("setup>10ms") == "'10ms' is not a number of milliseconds, which setup is compared with"
    for text in ("bytes>1.2.3", "bytes>nan", "bytes>-1", "bytes>1e3"):
        assert "is not a number, which bytes is compared with" in refused(text, unfinished=True)


@pytest.mark.parametrize("text", ["bytes>", "!", "outcome:", "setup<.", "rtx=", "!bytes>", "!outcome:", "!!", "aaa:"])
def test_an_unfinished_word_is_an_error_except_while_typing(text):
    assert parse_filter(text, unfinished=True).conditions == ()
    assert refused(text) == f"'{text}' is unfinished: it has no value"


def test_every_name_has_a_value_of_its_kind():
    assert {*TEXTS} & {*NUMBERS} == set()
    for name in TEXTS:
        assert parse_filter(f"{name}:x").conditions[0].word == TextWord(TEXTS[name], "x")
    for name in NUMBERS:
        assert parse_filter(f"{name}<=7").conditions[0].word == NumberWord(NUMBERS[name], "<=", 7, 0)
