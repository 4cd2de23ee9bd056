"""A recorded handshake taken to a live stack."""
