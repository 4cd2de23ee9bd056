"""Conditions of a gate: the handshakes that meet them, and the report as test cases."""
