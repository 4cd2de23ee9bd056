"""EAP packets and methods (RFC 3748): bytes to values."""
