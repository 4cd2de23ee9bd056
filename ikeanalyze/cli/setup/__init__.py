"""Commands about this installation."""
