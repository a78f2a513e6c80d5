"""Uploads that are made of one model's tensors."""

from abc import abstractmethod
from typing import ClassVar, TypeVar

from fedgrove.node.base.tensors import Layout, Tensors
from fedgrove.node.masking.graph import MIN_CLIENTS, Adjacency
from fedgrove.node.methods.training.update import ModelUpdate
from fedgrove.node.privacy.settings import PrivacySettings
from fedgrove.node.protocol.codec import Codec
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.terms import FederationConfig

SettingsT = TypeVar("SettingsT", bound=PrivacySettings)


class ModelCodec(Codec[Tensors, ModelUpdate]):
    """One mechanism's uploads of a model of some layout.

    Attributes
    ----------
    hides_divergence : bool
        A training that diverged counts as no update and is made private like any other, so that nobody learns whose it
        was.
    """

    hides_divergence: ClassVar[bool] = False

    @abstractmethod
    def upload_bytes(self, layout: Layout) -> int:
        """Exact size of every upload for a model of this layout.

        Raises
        ------
        ValueError
            The terms' mechanism does not suit such a model; the message says why.
        """

    def check_model(self, model: Tensors, number: int) -> None:
        try:
            self.upload_bytes(Layout.of(model))
        except ValueError as fault:
            raise ValueError(f"privacy: {fault}") from None

    def expected_bytes(self, inputs: RoundInputs[Tensors], client: int) -> int:
        return self.upload_bytes(inputs.layout) if inputs.sums(client) else 0

    def in_place_of_diverged(self, inputs: RoundInputs[Tensors]) -> ModelUpdate | None:
        return ModelUpdate(inputs.previous) if self.hides_divergence else None

    def parts(self, n: int) -> Adjacency:
        """Leaf positions of the groups to sum separately after a spoilt round; empty: one sum over all n clients."""
        return ()

    def least(self, n: int) -> int:
        """Number of survivors that each of these groups needs to be summed."""
        return MIN_CLIENTS


def settings_of(config: FederationConfig, kind: type[SettingsT]) -> SettingsT:
    """The terms' ``[privacy]`` table, which is that of this mechanism; TypeError if it is another's."""
    if not isinstance(config.privacy, kind):
        raise TypeError(f"the terms' mechanism is {config.mechanism}, not {kind.mechanism}")
    return config.privacy
