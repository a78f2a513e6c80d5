"""Uploads that are made of one model's tensors."""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.base.tensors import Layout, Tensors
from fedgrove.node.learning.server_side import ServerSide
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.privacy.mechanism import Mechanism, Weight
from fedgrove.node.privacy.settings import PrivacySettings
from fedgrove.node.privacy.weighted import bound_of_weights
from fedgrove.node.protocol.codec import Codec
from fedgrove.node.protocol.local_work import CannotTakePart
from fedgrove.node.protocol.metric_words import MetricSums
from fedgrove.node.protocol.round_inputs import Outcome, RoundInputs
from fedgrove.node.protocol.terms import FederationConfig

SettingsT = TypeVar("SettingsT", bound=PrivacySettings)


@dataclass(frozen=True)
class ModelUpdate:
    """Trained tensors, and the metrics of the model that the round began with, where the terms ask for them.

    In the round that only evaluates the last model there are no tensors. Where the training failed they are what it
    began with.

    Attributes
    ----------
    unmeasured : str
        Why a member whose metrics are asked for states none, in one clause; else empty.
    fault : CannotTakePart or None
        Why nothing was trained, or nothing evaluated where that is all that the round asks for.
    """

    tensors: Tensors
    metrics: MetricSums | None = None
    unmeasured: str = ""
    fault: CannotTakePart | None = None

    @property
    def caution(self) -> str:
        """For people and logs: that the member's training failed, or that its metrics are missing; else empty."""
        if self.fault is not None:
            return f"with the model unchanged: {self.fault.brief}"
        return "without this member's metrics, as the task's failed" if self.unmeasured else ""

    @property
    def detail(self) -> str:
        """Why, in words that may quote the data."""
        return self.unmeasured if self.fault is None else str(self.fault)


class ModelCodec(Codec[Tensors, ModelUpdate]):
    """One mechanism's uploads of a model of some layout: what ``Mechanism`` computes, under masks and on a store.

    Attributes
    ----------
    kind : type of Mechanism
    server : ServerSide
        What becomes of the mean of the uploads.
    """

    kind: ClassVar[type[Mechanism]]

    def __init__(self, config: FederationConfig) -> None:
        super().__init__(config)
        self.weighs_samples = self.kind.weighs_samples
        self.server = server_of(config)

    @abstractmethod
    def upload_bytes(self, layout: Layout) -> int:
        """Exact size of every upload for a model of this layout.

        Raises
        ------
        InvalidInput
            The terms' mechanism does not suit such a model; the message says why.
        """

    def check_model(self, model: Tensors, number: int) -> None:
        try:
            self.upload_bytes(Layout.of(self.server.model(model)))
        except (InvalidInput, InvalidContent) as fault:
            raise InvalidInput(f"privacy: {fault}") from None

    def expected_bytes(self, inputs: RoundInputs[Tensors], client: int) -> int:
        return self.upload_bytes(uploaded(inputs)) if inputs.sums(client) else 0

    def outcome(self, inputs: RoundInputs[Tensors], record: RecoveryRecord) -> Outcome[Tensors]:
        found = self.mean(inputs, record)
        if inputs.only_evaluates:
            return replace(found, model=inputs.published)
        if inputs.begins_anew:  # what the server kept leads to a model from which most could not train
            return replace(found, model=self.server.first(found.model))
        return replace(found, model=self.server.next(lambda: inputs.published, found.model))

    @abstractmethod
    def mean(self, inputs: RoundInputs[Tensors], record: RecoveryRecord) -> Outcome[Tensors]:
        """What the uploads come to, before the server's step; parameters and errors are those of ``outcome``."""

    def remark(self, inputs: RoundInputs[Tensors], update: ModelUpdate) -> str:
        return "only metrics: the training has ended" if inputs.only_evaluates else ""

    def caution(self, inputs: RoundInputs[Tensors], update: ModelUpdate) -> str:
        return update.caution

    def detail(self, update: ModelUpdate) -> str:
        return update.detail


def server_of(config: FederationConfig) -> ServerSide:
    bound = bound_of_weights(config.privacy, config.masking.masked, config.masking.bound)
    return ServerSide(config.server, config.strategy.name, bound)


def weight_of(inputs: RoundInputs[Tensors], positions: Iterable[int]) -> Weight:
    """What the uploads of the clients at these leaf positions count together."""
    samples = (inputs.graph.participants[position].samples for position in positions)
    return Weight(sum(samples), inputs.graph.total_samples)


def uploaded(inputs: RoundInputs[Tensors]) -> Layout:
    """The tensors that uploads are made of: the model's; none in a round that only evaluates it."""
    return Layout((), ()) if inputs.only_evaluates else inputs.layout


def settings_of(config: FederationConfig, kind: type[SettingsT]) -> SettingsT:
    """The terms' ``[privacy]`` table, which is that of this mechanism; TypeError if it is another's."""
    if not isinstance(config.privacy, kind):
        raise TypeError(f"the terms' mechanism is {config.mechanism}, not {kind.mechanism}")
    return config.privacy
