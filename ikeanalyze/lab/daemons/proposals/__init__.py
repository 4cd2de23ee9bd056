"""Proposals in strongSwan's notation, translated into those of other daemons."""
