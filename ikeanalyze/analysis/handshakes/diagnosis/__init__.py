"""Diagnosis: what stopped a handshake or made it slow, and what to try.

`candidates` selects the handshakes that a rule may concern, and `suspects` collects facts about them and their messages
in columns. Each of them becomes a `suspect.Suspect`, for which the conditions of the table of rules (`rules`) are
functions; `diagnose` applies them. Clean handshakes are not looked at, and polars is not needed.
"""
