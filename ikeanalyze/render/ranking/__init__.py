"""Rankings of alternatives by several criteria."""
