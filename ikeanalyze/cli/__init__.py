"""The command line: options, progress and exit statuses, but no analysis.

`app` has the table of commands and loads the module of a command when the command is called, so that `--help` is fast.
"""

import gc
import os
import sys

#: Options of a report that read the capture in another way than one without them.
_READING_OPTIONS = ("--keys", "--port", "--join", "--max-memory")
#: Thresholds of the cyclic garbage collector. With Python's own it would run again and again, for almost no garbage,
#: while modules are imported and when there are lists of a million numbers.
GARBAGE_COLLECTION = (200_000, 50, 1000)


def main() -> None:
    """Run the command line of this process."""
    gc.set_threshold(*GARBAGE_COLLECTION)  # before the command line is imported
    try:
        _begin_reading(sys.argv[1:])
        from ikeanalyze.cli.app import run
    except KeyboardInterrupt:  # the command line, which handles it otherwise, is not there yet
        os.write(2, b"ikeanalyze: interrupted\n")
        os._exit(130)
    run()


def _begin_reading(arguments: list[str]) -> None:
    """Let the compiled core begin to read the capture of a report while the command line is imported.

    That takes a tenth of a second, in which another processor would wait. The options are known later: if they need
    another reading, this one is discarded.
    """
    # a file may also have the name of a command, such as `batch`, which must not fork while a thread reads
    from ikeanalyze import core  # after `main` has begun to handle Ctrl-C

    is_report = arguments[:1] == ["report"] or (arguments and {"/", "."} & set(arguments[0]))
    if not is_report or any(argument.startswith(_READING_OPTIONS) for argument in arguments):
        return
    for argument in arguments:
        if core.begin_reading(argument):
            return
