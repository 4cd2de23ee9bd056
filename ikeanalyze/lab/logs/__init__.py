"""Logs of the lab's daemons: which messages each daemon sent."""
