"""Validation of predictions against live campaigns of the lab."""
