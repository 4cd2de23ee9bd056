"""Capture files: pcap, pcapng, compressed files and standard input, read as batches of packet records."""
