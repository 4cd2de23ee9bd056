"""The polars tables (frames, messages, exchanges, handshakes), built from the columns of the analysis."""
