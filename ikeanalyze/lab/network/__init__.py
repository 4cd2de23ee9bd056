"""The network of the lab: network namespaces, the links between them, and emulated loss and delay."""
