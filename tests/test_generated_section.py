"""Sections of the documentation that programs write."""

import re

import pytest

from benchmarks.generated_section import replace_section
from tests.paths import ROOT


def test_only_the_named_section_is_replaced(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n<!-- y: begin -->\nkept\n<!-- y: end -->\n")
    replace_section(page, "x", "new\n")
    assert (
        page.read_text() == "a\n<!-- x: begin -->\nnew\n<!-- x: end -->\nb\n<!-- y: begin -->\nkept\n<!-- y: end -->\n"
    )
    with pytest.raises(ValueError, match="not enough values"):
        replace_section(page, "z", "new\n")


@pytest.mark.parametrize(
    ("page", "names"), [("lab.md", ["matrix", "costs"]), ("predict.md", ["validation", "campaigns"])]
)
def test_each_page_has_its_sections_once(page, names):
    text = (ROOT / "docs" / page).read_text()
    assert re.findall(r"<!-- (\w+): begin -->\n", text) == re.findall(r"<!-- (\w+): end -->\n", text) == names
