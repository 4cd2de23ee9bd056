"""Captures of many packets that are easy to send, and what it costs to read them."""
