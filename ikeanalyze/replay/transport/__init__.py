"""Datagrams to and from a replay target: UDP sockets, or raw IP by scapy."""
