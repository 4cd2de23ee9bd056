"""docs/diagnosis.md describes each code of the diagnosis, and has the remedies and RFCs of the rules."""

import re

import pytest

from ikeanalyze.analysis.handshakes.diagnosis.captures import FLOOD_CODE, FLOOD_REMEDY, FLOOD_RFC
from ikeanalyze.analysis.handshakes.diagnosis.rules import RULES
from tests.paths import ROOT

PAGE = (ROOT / "docs" / "diagnosis.md").read_text()
SECTIONS = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
CODES = list(dict.fromkeys(rule.code for rule in RULES))


def list_references(text: str) -> dict[str, list[str]]:
    """The sections of "RFC 7296, 1.2 and 2.7; RFC 6023", by RFC, in order; none: the whole RFC."""
    found: dict[str, list[str]] = {}
    for reference in text.split("; "):
        document, _, sections = reference.partition(", ")
        found.setdefault(document, []).extend(filter(None, re.split(", | and ", sections)))
    return found


def test_each_code_has_a_section_in_the_order_of_precedence():
    assert list(SECTIONS) == [*CODES, FLOOD_CODE]


def test_the_section_of_a_capture_has_remedy_and_rfc():
    text = " ".join(SECTIONS[FLOOD_CODE].split())
    assert FLOOD_REMEDY in text
    assert FLOOD_RFC in text


def test_the_table_links_to_each_section():
    rows = dict(re.findall(r"^\| \[`(\S+)`\]\(#(\S+)\) \|", PAGE, re.MULTILINE))
    assert list(rows) == list(rows.values()) == list(SECTIONS)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_section_has_remedy_and_rfc(rule):
    text = " ".join(SECTIONS[rule.code].split())
    for part in ("Evidence: ", "Try: ", "Specified in: "):
        assert part in text
    assert rule.remedy.replace("{", "`").replace("}", "`") in text
    row = re.search(rf"^\| \[`{rule.code}`\].*$", PAGE, re.MULTILINE)
    assert row is not None
    assert str(rule.effect) in row[0]
    assert str(rule.confidence) in row[0]


@pytest.mark.parametrize("code", CODES)
def test_a_section_has_each_reference_of_its_rules_once(code):
    expected: dict[str, set[str]] = {}
    for rule in RULES:
        if rule.code == code:
            for document, sections in list_references(rule.rfc).items():
                expected.setdefault(document, set()).update(sections)
    [listed] = re.findall(r"Specified in: (.*?)\.(?=\s*\Z|\s*\n\n)", SECTIONS[code], re.DOTALL)
    text = " ".join(listed.split())
    documents = [reference.partition(", ")[0] for reference in text.split("; ")]
    assert len(documents) == len(set(documents))
    sections = list_references(text)
    assert {document: set(of_document) for document, of_document in sections.items()} == expected
    for of_document in sections.values():
        assert len(of_document) == len(set(of_document))
