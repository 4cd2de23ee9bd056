"""The result of a replay."""
