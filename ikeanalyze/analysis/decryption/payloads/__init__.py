"""Payloads of decoded messages: their columns, their forms, and the bytes they take."""
