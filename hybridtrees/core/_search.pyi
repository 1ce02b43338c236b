"""Types of the base of the compiled searches."""

CRITERIA: dict[str, int]

class SplitSearch:
    """Base of the searches."""

    @property
    def n_threads(self) -> int: ...
