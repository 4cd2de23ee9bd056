"""Fuzzing of ikeanalyze with hostile input: see docs/fuzzing.md.

A harness is a function that takes bytes and raises an exception for a finding. It needs no fuzzer, so that
`tests/fuzz` replays inputs through it. `engine` runs it with Atheris, which is guided by coverage.
"""
