"""Handshakes as they end, one line each."""
