"""Key files of every origin to key sets, and decryption."""
