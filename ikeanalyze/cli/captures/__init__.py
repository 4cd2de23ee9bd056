"""Commands about one or a few captures."""
