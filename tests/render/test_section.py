import dataclasses

import pytest

from ikeanalyze.render.section import Facts, Table


@pytest.mark.parametrize("section", [Facts("a", [("b", "c")]), Table("a", (), [])])
def test_sections_do_not_change(section):
    with pytest.raises(dataclasses.FrozenInstanceError):
        section.title = "b"
    assert section.level == 2
