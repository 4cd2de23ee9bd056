"""Large captures made to measure, and how long it takes to read them."""
