"""Files of any kind: TOML that users write, atomic writes, decompression."""
