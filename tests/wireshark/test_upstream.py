"""docs/upstream.md shows what the newest tshark prints today."""

import pytest

from tests.wireshark.upstream import PAGE, find_blocks, run_block

BLOCKS = find_blocks(PAGE.read_text())


@pytest.mark.parametrize("tshark", ["forky"], indirect=True)
@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_the_output_on_the_page_is_that_of_the_commands(tshark, number):
    commands, output = BLOCKS[number]
    assert run_block(tshark, commands) == output


def test_every_point_has_a_command():
    points = PAGE.read_text().split("\n## ")[1:]
    assert len(points) >= 5
    for point in points:
        assert find_blocks("## " + point), point.partition("\n")[0]
