"""What cannot be compared."""


class CompareError(ValueError):
    """What was asked for cannot be compared: a line for the user."""

    def __init__(self, what: str, argument: str | None = None) -> None:
        super().__init__(what)
        self.argument = argument  # which one is wrong: "by", "metric", ...; None: the dataset is
