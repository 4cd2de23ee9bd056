"""The overhead of ESP, computed or measured."""
