"""IKEv2 messages and payloads (RFC 7296 and its extensions): bytes to values and back."""
