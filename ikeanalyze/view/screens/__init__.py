"""Screens of the terminal browser."""
