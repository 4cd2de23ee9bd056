"""Models: predictions for other links, ESP overhead, and ranking."""
