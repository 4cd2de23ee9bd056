"""The command line: options, progress and exit statuses, but no analysis.

`app` has the table of commands and loads the module of a command when the command is called, so that `--help` is fast.
"""

from ikeanalyze.cli.app import main

__all__ = ["main"]
