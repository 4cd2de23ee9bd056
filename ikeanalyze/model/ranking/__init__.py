"""Ranks alternatives by the multiplicative analytic hierarchy process."""
