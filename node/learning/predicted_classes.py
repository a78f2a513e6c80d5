"""Whether a model answers with one class whatever it is asked."""

import torch


class PredictedClasses:
    """Takes note of predicted and of true classes, batch by batch."""

    def __init__(self) -> None:
        self._predicted: set[int] = set()
        self._true: set[int] = set()

    def add(self, predicted: torch.Tensor, true: torch.Tensor) -> None:
        """Add a batch's classes, both int64 of shape (n,); after two, more make no difference."""
        for known, found in ((self._predicted, predicted), (self._true, true)):
            if len(known) < 2 and len(found):
                known.update((int(found.min()), int(found.max())))

    @property
    def only(self) -> int | None:
        """The class that was predicted for every sample, where the samples have several; else None."""
        return next(iter(self._predicted)) if len(self._predicted) == 1 and len(self._true) > 1 else None
