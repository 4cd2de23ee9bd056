"""Runs the cases of a scenario, one after another or several at once, and continues an earlier run.

`plan` finds the handshakes that are missing; `runner` runs them, in this process or in several (`worker`).
"""
