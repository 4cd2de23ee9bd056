"""The list of keys in key files and logs."""
