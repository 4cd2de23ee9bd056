"""The result of `verify`."""
