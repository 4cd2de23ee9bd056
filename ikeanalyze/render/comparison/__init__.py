"""Comparisons of groups of handshakes."""
