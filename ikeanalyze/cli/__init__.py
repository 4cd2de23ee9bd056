"""The command line: options, progress and exit statuses, but no analysis.

`app` has the table of commands and loads the module of a command when the command is called, so that `--help` is fast.
"""

import gc


def main() -> None:
    """Run the command line of this process."""
    # The cyclic garbage collector would run again and again, for almost no garbage, while modules are imported and when
    # there are lists of a million numbers. Therefore it is set before the command line is imported.
    gc.set_threshold(200_000, 50, 1000)
    from ikeanalyze.cli.app import run

    run()
