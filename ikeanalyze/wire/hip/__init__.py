"""HIP packets and parameters (RFC 7401): bytes to values."""
