"""What the decoded messages of a handshake tell: its outcome, authentication, key exchanges and certificates."""
