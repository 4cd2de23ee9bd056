"""Widgets of the terminal browser."""
