"""Host Identity Protocol: host associations and the facts of a base exchange (RFC 7401)."""
