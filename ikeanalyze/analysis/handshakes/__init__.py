"""Exchanges to handshakes: outcome, authentication methods, rekeying."""
