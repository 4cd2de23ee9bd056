"""Comparisons of groups of handshakes in a dataset, with intervals and tests."""


class CompareError(ValueError):
    """A comparison is not possible: one line for the user."""

    def __init__(self, message: str, argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument  # the invalid argument: "by", "metric", ...; None: the dataset is invalid
