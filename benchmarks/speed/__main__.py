"""Measure what docs/speed.md states: python -m benchmarks.speed [--update]

Each work is timed in turns with another program that does the same, or with an earlier version of ikeanalyze, with and
without the compiled core where it is installed; the table has medians. What takes minutes is run once. Missing captures
are generated in benchmarks/data/, 8 GB. tshark is this machine's, or with --tree that of another Debian release (`make
trees`). --update writes the table into docs/speed.md.
"""

import argparse
import os
import platform
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from benchmarks.files import parse_size
from benchmarks.generated_section import replace_section
from benchmarks.readers import DATA, ROOT, describe_processor
from benchmarks.speed.programs import check_out, find_tshark, list_versions
from benchmarks.speed.works import HEADING, WorkList, make_keyed
from ikeanalyze import core

DOCUMENT: Final = ROOT / "docs" / "speed.md"


def describe_machine() -> str:
    """Processors, memory and software of this machine."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)
    python = f"Python {platform.python_version()}, numpy {np.__version__}, polars {pl.__version__}"
    return f"{describe_processor()}, {memory:.0f} GiB of memory, {platform.system()} {platform.release()}, {python}"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=parse_size, default="1GiB", help="of the large captures (default: 1GiB)")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tree", type=Path, metavar="DIR", help="root directory of another tshark")
    parser.add_argument("--before", metavar="COMMIT", help="also measure this commit of ikeanalyze, once")
    parser.add_argument("--only", metavar="TEXT", default="", help="only works with this text in their name")
    parser.add_argument("--update", action="store_true", help="write the table into docs/speed.md")
    options = parser.parse_args()
    DATA.mkdir(exist_ok=True)
    tshark = find_tshark(options.tree)
    runs = "one run of each" if options.runs == 1 else f"medians of {options.runs} runs in turns"
    lines = [f"{describe_machine()}; {runs}; captures in the page cache.\n\n", HEADING]
    with ExitStack() as stack:
        works = WorkList(
            versions=list_versions(compiled=core.problem is None),
            before=stack.enter_context(check_out(options.before)) if options.before else None,
            tshark=tshark,
            own_tshark=find_tshark(None),
            tshark_keys=stack.enter_context(tshark.with_keys(make_keyed() / "ikev2_decryption_table")),
            size=options.size,
            out=Path(stack.enter_context(tempfile.TemporaryDirectory(dir=DATA))),
        )
        for work in works:
            if options.only in work.name:
                work.run(options.runs)
                lines += work.format_rows()
    table = "".join(lines)
    print(table, end="")
    if options.update:
        replace_section(DOCUMENT, "speed", table)


if __name__ == "__main__":
    main()
