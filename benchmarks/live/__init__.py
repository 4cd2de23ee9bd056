"""Handshakes that are reported while they are captured, at hundreds a second."""
