"""Capture files to frames."""
