"""The report of captures and their handshakes, in every format."""
