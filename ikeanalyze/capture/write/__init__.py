"""Captures written again: decrypted, filtered, or converted from pcap to pcapng."""
