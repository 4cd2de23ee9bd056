"""Packets to datagrams: link layers, IP, IP and TCP reassembly, and classification (IKE, ESP, RADIUS, HIP ...)."""
