"""Writes the examples at the end of the help of a command."""

from typing import Any


class ExamplesInHelp:
    """Base of commands and groups of Typer whose help ends with examples."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples as they are, so that they can be copied."""
        from ikeanalyze.cli.usage.examples import EXAMPLES  # for help alone

        if examples := EXAMPLES.get(ctx.command_path.partition(" ")[2]):
            with formatter.section("Examples"):
                for line in examples:
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")
