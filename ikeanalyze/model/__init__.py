"""What a capture lets one predict: other links, ESP overhead, ranking."""
