"""What a demonstration or a simulation leaves: rounds, models and, of a demonstration, history and verdict."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgrove.api.history import History
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.status.rounds import Round

if TYPE_CHECKING:
    from torch import Tensor


class Run:
    """A run that has ended, as ``fedgrove.demo`` and ``fedgrove.simulate`` return it.

    Attributes
    ----------
    path : Path or None
        The run's directory. A demonstration without ``out`` has a temporary one, which goes with this object; a
        simulation without ``out`` has none.
    rounds : tuple of Round
    report : mapping
        What the command prints with ``--json``: a demonstration's ``report.json``, a simulation's record.
    """

    def __init__(
        self,
        path: Path | None,
        rounds: tuple[Round, ...],
        report: Mapping[str, Any],
        models: Callable[[int | None], Tensors],
        history: History | None = None,
        verdict: Verdict | None = None,
    ) -> None:
        self.path, self.rounds, self.report = path, rounds, report
        self._models, self._history, self._verdict = models, history, verdict

    def __repr__(self) -> str:
        last = self.rounds[-1] if self.rounds else None
        found = f", accuracy {last.accuracy:.4f}" if last and last.accuracy is not None else ""
        return f"<fedgrove.Run of {len(self.rounds)} rounds{found}>"

    @property
    def history(self) -> History:
        """A demonstration's ledger and store; AttributeError of a simulation, which has neither."""
        if self._history is None:
            raise AttributeError("a simulation has no ledger, so it has no history: fedgrove.demo keeps one")
        return self._history

    @property
    def verdict(self) -> Verdict:
        """What the auditor says of a demonstration; AttributeError of a simulation, which nobody audits."""
        if self._verdict is None:
            raise AttributeError("a simulation has no ledger, so it has no verdict: fedgrove.demo is audited")
        return self._verdict

    def model(self, number: int | None = None) -> "dict[str, Tensor]":
        """The model that round ``number`` left, by default the last, as a state dict for the task's module.

        Load it with ``load_state_dict(..., strict=False)``: tensors that stay at home are not in it.

        Raises
        ------
        InvalidInput
            There is no such round, it did not close, or a simulation did not keep its model (``keep_models``).
        InvalidContent
            The rounds leave a model for each cluster.
        """
        import torch

        return {name: torch.tensor(value) for name, value in self._models(number).items()}
