"""Commands about many captures, and experiments that record them."""
