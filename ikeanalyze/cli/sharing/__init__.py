"""Commands that write captures for others."""
