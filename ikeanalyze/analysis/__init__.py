"""Frames to messages, exchanges and handshakes: one step a file."""
