"""Run harnesses: `python -m fuzz NAME... [--runs N | --seconds N]`; see docs/fuzzing.md."""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from fuzz.harness import NAMES, load_harness

ROOT: Final = Path(__file__).parent.parent
#: Inputs that reached new code, and those that found something, by harness; not in the repository.
DIRECTORY: Final = ROOT / ".fuzz"
#: Seconds for one input, of a machine that may be busy. A typical input takes a millisecond to a tenth of a second.
_TIMEOUT_S: Final = 60
_MEMORY_MB: Final = 2048


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Run harnesses with Atheris.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"harnesses (default: all): {', '.join(NAMES)}")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--runs", type=int, metavar="N", help="executions of the fastest harness; others make fewer")
    length.add_argument("--seconds", type=int, metavar="N", help="seconds for each harness (default: 60)")
    parser.add_argument("--reproduce", metavar="FILE", nargs="+", help="run files through one harness, without Atheris")
    options = parser.parse_args(arguments)
    names = options.names or list(NAMES)
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"unknown harness {', '.join(unknown)}; there are {', '.join(NAMES)}")
    if options.reproduce:
        if len(names) != 1:
            parser.error("--reproduce needs the name of one harness")
        return _reproduce(names[0], options.reproduce)
    # The harnesses of a test run share the processors; those that run for a time run one by one.
    with ThreadPoolExecutor(os.cpu_count() if options.runs else 1) as threads:
        passed = threads.map(lambda name: _fuzz(name, options.runs, options.seconds or 60), names)
        failed = [name for name, ok in zip(names, passed, strict=True) if not ok]
    if failed:
        print(f"findings in {', '.join(failed)}: see {DIRECTORY / 'findings'}", file=sys.stderr)
    return 1 if failed else 0


def _reproduce(name: str, paths: Sequence[str]) -> int:
    harness = load_harness(name)
    for path in paths:
        print(path, flush=True)
        harness.run(Path(path).read_bytes())
    return 0


def _fuzz(name: str, runs: int | None, seconds: int) -> bool:
    """Run one harness in a process of its own; returns whether it found nothing."""
    seeds, corpus, findings = (DIRECTORY / kind / name for kind in ("seeds", "corpus", "findings"))
    for directory in (corpus, findings):
        directory.mkdir(parents=True, exist_ok=True)
    options = [f"-artifact_prefix={findings}/", f"-timeout={_TIMEOUT_S}", f"-rss_limit_mb={_MEMORY_MB}"]
    if runs is None:
        options.append(f"-max_total_time={seconds}")
        directories = [str(corpus), str(seeds)]
    else:
        # the same in each run: from the seeds alone, with a fixed random seed, and nothing is kept
        options += [f"-runs={max(round(runs * load_harness(name).share), 1)}", "-seed=1"]
        directories = [str(seeds)]
    code = f"from fuzz.engine import fuzz; fuzz({name!r}, {[*options, '-print_final_stats=1', *directories]!r})"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
    print(f"== {name}", file=sys.stderr, flush=True)
    # What harnesses print at the same time is printed in one piece when they end.
    output = None if runs is None else subprocess.PIPE
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=False, stdout=output, stderr=output and subprocess.STDOUT
    )
    if output:
        print(
            f"== {name}: exit status {ended.returncode}",
            ended.stdout.decode(errors="replace"),
            sep="\n",
            file=sys.stderr,
        )
    return ended.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
