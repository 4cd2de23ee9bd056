"""The harnesses, one module each. `fuzz.harness` has their names."""
