"""One handshake, message by message: as text and as a drawing."""
