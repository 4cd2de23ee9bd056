"""Sans-IO IKEv2 initiator: takes datagrams and the time, returns datagrams and timers."""
