"""`python -m ikeanalyze` is the command `ikeanalyze`."""

from ikeanalyze.cli import main

if __name__ == "__main__":
    main()
