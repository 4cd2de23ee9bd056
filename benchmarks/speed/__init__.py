"""Measures what docs/speed.md states."""
