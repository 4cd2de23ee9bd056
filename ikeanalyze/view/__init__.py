"""The terminal browser of a capture."""
