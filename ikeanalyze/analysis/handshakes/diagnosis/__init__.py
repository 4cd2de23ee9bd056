"""Diagnosis: what stopped a handshake or made it slow, and what to try.

`candidates` selects the handshakes that a rule may concern, and `suspects` collects facts about them and their messages
in columns. Each of these handshakes becomes a `suspect.Suspect`. The conditions of the rules (`rules`) are functions of
a suspect, and `diagnose` applies them. No other handshake is looked at, and polars is not loaded.
"""
