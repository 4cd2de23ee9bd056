import pytest

from ikeanalyze.keys.collector import MAX_WARNINGS, KeyCollector, KeyWarning, parse_hex


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("00ff", b"\0\xff"),
        ("00FF", b"\0\xff"),
        ("0x00ff", b"\0\xff"),
        ("0X00ff", b"\0\xff"),
        (" 00ff\t", b"\0\xff"),
        ("", b""),
        ("0x", b""),
        ("0ff", None),
        ("0g", None),
        ("00 ff", None),
        ("00:ff", None),
        ("٠٠", None),
        ("-1", None),
    ],
)
def test_hexadecimal_values_are_decoded(text, value):
    assert parse_hex(text) == value


def test_warnings_are_bounded():
    findings = KeyCollector("a file")
    for line in range(MAX_WARNINGS + 5):
        findings.warn(line, "wrong")
    assert len(findings.warnings) == MAX_WARNINGS
    assert findings.dropped_warnings == 5


def test_a_warning_is_formatted_as_one_line():
    assert str(KeyWarning("a", 3, "wrong")) == "a: line 3: wrong"
    assert str(KeyWarning("a", None, "wrong")) == "a: wrong"


def test_formats_in_order_of_appearance():
    findings = KeyCollector("a")
    for name in "bab":
        findings.add_format(name)
    assert findings.formats == ["b", "a"]
