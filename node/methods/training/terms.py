"""Terms of a federation that trains one model: the model, without a table for the method."""

from dataclasses import dataclass
from typing import Any, ClassVar

from fedgrove.node.protocol.terms import FederationConfig, MethodTerms, MethodWords


@dataclass(frozen=True)
class TrainingTerms(MethodTerms):
    """One model for everybody, trained as the tables model, training, strategy, shared and privacy say."""

    name: ClassVar[str] = "training"
    evaluates: ClassVar[bool] = True
    on_gpu: ClassVar[bool] = True

    def check(self, config: FederationConfig) -> None:
        """All other terms are checked for every method."""

    def to_table(self) -> dict[str, Any] | None:
        return None

    @property
    def words(self) -> MethodWords:
        return MethodWords("Each model is the previous one plus the sum of masked updates.")
