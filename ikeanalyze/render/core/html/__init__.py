"""HTML pages that need no network and no other file."""
