"""Captures made for others: extracts of chosen handshakes, and anonymised copies."""
