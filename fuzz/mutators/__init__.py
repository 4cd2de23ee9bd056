"""Mutators: functions that return a changed copy of an input, reproducibly for a random generator."""
