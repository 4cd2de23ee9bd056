"""Diagnosis: what stopped a handshake or made it slow, and what to try.

`suspects` selects the handshakes that a rule may concern, and collects facts about their messages; `rules` is the table
of rules; `diagnose` applies it. Clean handshakes are not looked at.
"""
