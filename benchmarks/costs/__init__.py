"""Processor time of handshakes by authentication and key exchange, with and without the logging of keys."""
