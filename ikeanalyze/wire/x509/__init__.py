"""X.509 certificates, names and DER, as far as a peer's certificate can be read."""
