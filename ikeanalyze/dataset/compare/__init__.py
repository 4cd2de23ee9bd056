"""Comparisons of groups of handshakes in a dataset, with intervals and tests."""
