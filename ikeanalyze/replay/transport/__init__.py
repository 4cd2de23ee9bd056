"""Transports to a replay target: UDP sockets, or raw IP with scapy."""
