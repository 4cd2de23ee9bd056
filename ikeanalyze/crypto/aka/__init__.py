"""Authentication and key agreement of mobile networks: Milenage, and the keys of EAP-AKA."""
