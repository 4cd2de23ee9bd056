"""Runs of a replay: the loop, faults, verbatim replay, recording and comparison with the original."""
