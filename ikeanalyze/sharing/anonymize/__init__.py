"""Anonymised copies of captures: packets of the same sizes, without addresses, names and keys of the original."""
