"""Predicts set-up time, bytes and failures of a recorded handshake on another link."""
