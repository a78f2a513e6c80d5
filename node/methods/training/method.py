"""One model for everybody, as a method of federations."""

from collections.abc import Callable
from functools import cached_property

from fedgrove.chain.crypto.keys import Keys
from fedgrove.common.chunks import cut
from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.ipfs.store import ContentReader
from fedgrove.ipfs.unixfs import UNIXFS_V1_2025, root_of
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensor_views import parts
from fedgrove.node.base.tensors import Layout, Tensors, dump, load
from fedgrove.node.methods.training.client_level import ClientLevelAccounting, ClientLevelUploads
from fedgrove.node.methods.training.codec import ModelCodec, ModelUpdate
from fedgrove.node.methods.training.learner import LearnedData, ModelMethod
from fedgrove.node.methods.training.local import LocalUploads
from fedgrove.node.methods.training.local_training import LocalTraining
from fedgrove.node.methods.training.masked import MaskedUploads
from fedgrove.node.methods.training.signds import SignDsUploads
from fedgrove.node.methods.training.upload_accounting import UploadAccounting
from fedgrove.node.protocol.accounting import Accounting, NoMechanism
from fedgrove.node.protocol.cells import Cells
from fedgrove.node.protocol.local_work import LocalWork
from fedgrove.node.protocol.method import Aides, Method, Workplace
from fedgrove.node.protocol.prediction import ModelChoice
from fedgrove.node.protocol.round_inputs import Bounded, RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.schedule import Schedule
from fedgrove.node.protocol.terms import FederationConfig

_MECHANISMS: dict[str, tuple[type[ModelCodec], type[Accounting]]] = {
    "none": (MaskedUploads, NoMechanism),
    "client": (ClientLevelUploads, ClientLevelAccounting),
    "local": (LocalUploads, UploadAccounting),
    "signds": (SignDsUploads, UploadAccounting),
}


def codec_of(config: FederationConfig) -> ModelCodec:
    """How uploads are made under these terms."""
    return _MECHANISMS[config.mechanism][0](config)


class Training(ModelMethod[Tensors, ModelUpdate]):
    """Members train the global model on their data; their updates are summed as the terms' mechanism says."""

    codec: ModelCodec

    def __init__(self, config: FederationConfig, read_terms: Callable[[bytes], Method]) -> None:
        super().__init__(config, read_terms)
        self.codec, self.accounting = codec_of(config), _MECHANISMS[config.mechanism][1](config)
        self.schedule = Schedule[Tensors](config)
        self._layouts: dict[bytes, Layout] = {}

    def first_from(self, tensors: Tensors) -> bytes:
        try:
            self.codec.upload_bytes(Layout.of(tensors))
        except (InvalidInput, InvalidContent) as fault:
            raise InvalidConfig(f"privacy: {fault}") from None
        try:
            return dump(self.codec.server.first(tensors))
        except InvalidContent as fault:
            raise InvalidConfig(f"the first model: {fault}") from None

    def read_model(self, data: bytes, layout: Layout | None = None) -> Tensors:
        content = load(data, layout)
        self.codec.server.check(content)
        return content

    def model_bytes(self, model: Tensors) -> bytes:
        return dump(model)

    def model_digest(self, model: Tensors) -> bytes:
        return root_of(cut(parts(model), UNIXFS_V1_2025.chunk_size)).digest  # without the bytes that go with the model

    def layout_of(self, model: Tensors) -> Layout:
        return Layout.of(model)

    def parameters_of(self, model: Tensors) -> int:
        return Layout.of(self.codec.server.model(model)).length

    def inputs(
        self,
        rounds: Rounds,
        current: RoundRecords,
        ledger: tuple[int, str],
        store: ContentReader,
        model: Tensors | None = None,
    ) -> RoundInputs[Tensors]:
        cells = Cells(rounds, self.config)
        graph = current.graph(*ledger, self.config.masking, self.codec.groups(cells, current), cells.crowd(current))

        def read() -> Tensors:
            return model if model is not None else self.fetch_model(store, current.opened.model_digest)

        work = (self._layouts, self.codec.server.start, self._bounds)
        return RoundInputs(rounds, current, graph, self.config, store, read, *work)

    @cached_property
    def _bounds(self) -> Callable[[RoundInputs[Tensors]], Bounded] | None:
        """Finds whom bounds on updates let pass; None where the terms have none."""
        if self.config.bounds is None:
            return None
        from fedgrove.node.protocol.bounded import BoundedRounds  # the curve is not there for every Python

        return BoundedRounds(self.codec).of

    def work(self, workplace: Workplace[Tensors, LearnedData]) -> LocalWork[ModelUpdate]:
        trainer = self.learning.trainer(workplace)
        place = (workplace.journal, workplace.inputs, workplace.weight)
        return LocalTraining(workplace.store, self.config, trainer, *place)

    def aides(self, keys: Keys | None, test: LearnedData | None) -> Aides[Tensors]:
        if test is None:
            return Aides()
        evaluate = self.learning.evaluator(test)
        return Aides(lambda published: evaluate(self.codec.server.model(published)))

    def one_model(self, model: Tensors, choice: ModelChoice) -> Tensors:
        if choice:
            raise InvalidConfig("there is one model for everybody: leave out which cluster's")
        return self.codec.server.model(model)
