"""Decrypted messages and what their payloads add to the analysis."""
