"""Replays recorded handshakes against live responders."""
