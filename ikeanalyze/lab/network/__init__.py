"""The network of the lab: namespaces, links, loss and delay."""
