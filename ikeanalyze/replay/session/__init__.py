"""Replay sessions: event loop, fault injection, verbatim replay, recording and comparison with the original."""
