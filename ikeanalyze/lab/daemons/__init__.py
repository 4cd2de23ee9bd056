"""Daemons of the lab: their configuration and control, a module for each stack and AAA server."""
