"""The overhead of ESP: packet sizes, operations, queueing delay."""
