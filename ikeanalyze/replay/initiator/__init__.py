"""An IKEv2 initiator without I/O: it takes datagrams and the time, and gives datagrams and timers."""
