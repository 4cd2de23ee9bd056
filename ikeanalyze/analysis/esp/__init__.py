"""ESP SAs of a capture: packets, bytes, sequence numbers and, with keys, the sizes of the payloads."""
