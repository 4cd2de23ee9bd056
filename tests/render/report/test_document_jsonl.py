import json

from ikeanalyze.render import Format
from ikeanalyze.render.report import document
from tests.render.analysis_examples import analysis


def test_a_handshake_a_line(rendered):
    lines = rendered(analysis(), Format.JSONL).splitlines()
    assert [json.loads(line) for line in lines] == document.build_report(analysis())["handshakes"]


def test_without_handshakes_json_lines_are_empty(rendered):
    assert rendered(analysis([]), Format.JSONL) == ""
