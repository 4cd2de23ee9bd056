import json

from ikeanalyze.analysis.result import AnalysisWarning, SkippedFile
from ikeanalyze.render import Format
from ikeanalyze.render.core.json import format_json
from ikeanalyze.render.report import document
from tests.render.analysis_examples import analysis


def test_the_stream_is_the_document(rendered):
    a = analysis(
        warnings=[AnalysisWarning("x", 3, 'a "b"'), AnalysisWarning("x", None, "c")],
        skipped=[SkippedFile("bad", "no capture")],
    )
    text = rendered(a, Format.JSON)
    assert json.loads(text) == document.build_report(a)
    assert text.endswith("}\n")
    assert json.loads(text)["warnings"] == [
        {"capture": "x", "frame": 3, "message": 'a "b"'},
        {"capture": "x", "frame": None, "message": "c"},
    ]


def test_many_handshakes_are_a_line_each(rendered):
    a = analysis([1, 2, 3, 4, 5] * 21)
    text = rendered(a, Format.JSON)
    assert json.loads(text) == document.build_report(a)
    lines = [line for line in text.splitlines() if line.startswith('    {"id":')]
    assert len(lines) == 105
    assert list(map(json.loads, (line.rstrip(",") for line in lines))) == list(document.build_handshakes(a))


def test_json_is_indented_by_two_and_small_objects_stay_on_a_line(rendered):
    lines = rendered(analysis([1]), Format.JSON).splitlines()
    assert lines[1] == '  "schema": "ikeanalyze.report/1",'
    assert '      "id": 1,' in lines
    assert '        "IKE_AUTH": {"messages": 2, "frames": 2, "bytes": 587}' in lines
    assert lines.count("        {") == 4 + 1 + 1  # exchanges, links, after_setup
    assert all((len(line) - len(line.lstrip())) % 2 == 0 for line in lines)


def test_without_handshakes_json_has_an_empty_list(rendered):
    assert json.loads(rendered(analysis([]), Format.JSON))["handshakes"] == []


def test_indented_any_value():
    value = {"a": [], "b": {}, "c": [{"d": 1}, {"e": [1, 2]}], "f": ["x" * 100, "y" * 100], "g": None}
    assert json.loads(format_json(value)) == value
    assert format_json({"a": 1, "b": 2.5}) == '{"a": 1, "b": 2.5}'


def test_text_that_is_not_unicode_is_valid_json():
    """A byte of a path that is not UTF-8 is a lone surrogate; a pair is a character beyond U+FFFF."""
    value = {"a\udcff": ["b\udc80", {"c": "\ud800", "d": ["\U0001f600", r"\udcff"]}], "e": ("\udcff",)}
    text = format_json(value)
    text.encode("ascii")
    assert json.loads(text) == {
        r"a\xff": [r"b\x80", {"c": r"\ud800", "d": ["\U0001f600", r"\udcff"]}],
        "e": [r"\xff"],
    }
