"""The sections of a report in text formats."""
