"""Decrypt messages and decode their payloads; what they tell about a handshake is in `handshakes.contents`."""
