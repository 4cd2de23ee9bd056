"""The commands that read captures, key files and datasets, and those that run daemons or Wireshark."""
