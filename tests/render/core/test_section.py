import pytest

from ikeanalyze.render.core.section import KeyValueSection, TableSection


@pytest.mark.parametrize("section", [KeyValueSection("a", [("b", "c")]), TableSection("a", (), [])])
def test_sections_do_not_change(section):
    with pytest.raises(AttributeError):
        section.title = "b"
    assert section.level == 2
