"""Generates large captures and measures how long ikeanalyze and tshark take to read them."""
