"""IKEv1 messages and payloads (RFC 2408, RFC 2409): bytes to values."""
