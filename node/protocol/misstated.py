"""A sum that is not what its members vouched for."""

from collections.abc import Mapping

from fedgrove.node.masking.aggregate import InvalidUpdate


class Misstated(InvalidUpdate):
    """The sum of a round with bounds is not what its members vouched for, or leaves out somebody who did not lie.

    Attributes
    ----------
    liars : mapping of int to bytes
        Those whom their own opened keys prove to have misstated it: b by position, ascending.
    """

    def __init__(self, message: str, client: int, liars: Mapping[int, bytes]) -> None:
        super().__init__(message, client)
        self.liars = liars
