"""What the README shows is what the program prints."""

import pytest

from tests import readme

BLOCKS = readme.blocks(readme.README.read_text())


def test_the_readme_shows_the_commands():
    assert {arguments.split()[0] for arguments, _ in BLOCKS} == {"report", "ladder", "keys", "verify"}


@pytest.mark.parametrize(("arguments", "output"), BLOCKS, ids=[arguments for arguments, _ in BLOCKS])
def test_output_is_that_of_the_program(arguments, output):
    assert readme.run(arguments) == output
