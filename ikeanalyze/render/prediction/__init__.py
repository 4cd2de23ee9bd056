"""Predictions of handshakes on other links."""
