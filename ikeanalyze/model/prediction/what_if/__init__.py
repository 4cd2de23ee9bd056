"""Changes of what a recorded handshake sends: other payload sizes, algorithms, certificate chains and exchanges."""
