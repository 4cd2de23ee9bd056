"""Writes the examples at the end of the help of a command."""

from typing import Any


def write_examples(context: Any, formatter: Any) -> None:
    """Write the examples of a command at the end of its help, as they are: they can be copied."""
    from ikeanalyze.cli.usage.examples import EXAMPLES  # for help alone

    if examples := EXAMPLES.get(context.command_path.partition(" ")[2]):
        with formatter.section("Examples"):
            for line in examples:
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")
