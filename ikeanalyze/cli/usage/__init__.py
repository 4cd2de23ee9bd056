"""How arguments are converted, and the examples at the end of help texts."""
