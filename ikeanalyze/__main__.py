"""Runs the command `ikeanalyze` as `python -m ikeanalyze`."""

from ikeanalyze.cli import main

if __name__ == "__main__":
    main()
