"""A fourth method: the mean of one vector of each member. All that it takes is this file and a line of the registry."""

import json
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.ring import WORD, decode, encode
from fedgrove.node.masking.survivors import opened_groups
from fedgrove.node.protocol.accounting import NoMechanism
from fedgrove.node.protocol.codec import Codec
from fedgrove.node.protocol.masked_sum import masked_bytes, unmasked_sum
from fedgrove.node.protocol.method import Aides, Method
from fedgrove.node.protocol.round_inputs import Outcome, RoundInputs
from fedgrove.node.protocol.schedule import Schedule
from fedgrove.node.protocol.terms import MethodTerms, MethodWords


@dataclass(frozen=True)
class MeanTerms(MethodTerms):
    """The ``[mean]`` table: how long vectors are."""

    name: ClassVar[str] = "mean"
    silent: ClassVar[tuple[str, ...]] = ("task", "training", "strategy", "shared", "privacy")

    length: int = 1

    def check(self, config) -> None: ...

    def to_table(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def words(self) -> MethodWords:
        return MethodWords("Each is the mean of the members' vectors.", "Means of vectors", "summed under masks")


@dataclass(frozen=True)
class Mean:
    """What a round leaves."""

    values: tuple[float, ...]

    def to_bytes(self) -> bytes:
        return json.dumps(self.values).encode()


class MeanCodec(Codec):
    def _layout(self) -> Layout:
        return Layout(("mean",), ((self.config.method.length,),))

    def check_model(self, model: Mean, number: int) -> None: ...

    def expected_bytes(self, inputs: RoundInputs, client: int) -> int:
        return WORD.itemsize * self.config.method.length

    def encode(self, inputs: RoundInputs, client: int, secrets, update: np.ndarray) -> bytes:
        samples, total = inputs.current.draws[client].samples, inputs.graph.total_samples
        words = encode(update, self._layout(), samples, total, self.config.masking.bound)
        return masked_bytes(inputs, client, secrets, words, self._layout())

    def outcome(self, inputs: RoundInputs, record) -> Outcome:
        total, layout = inputs.graph.total_samples, self._layout()
        groups = [group for group in opened_groups(inputs.graph, inputs.survivors, record.left_out) if group]
        words = sum(unmasked_sum(inputs, record, layout, group) for group in groups)
        summed = sum(inputs.graph.participants[position].samples for group in groups for position in group)
        return Outcome(Mean(tuple(map(float, decode(words, summed, total, self.config.masking.bound)))))


class MeanWork:
    """A client's part: it hands in its vector."""

    def __init__(self, vector: np.ndarray) -> None:
        self._vector = vector

    def samples(self, current, client: int) -> int:
        return 1

    def result(self, current, client: int) -> np.ndarray:
        return self._vector

    def settle(self, client: int) -> None: ...

    def leave(self) -> None: ...


class MeanMethod(Method):
    def __init__(self, config, read_terms) -> None:
        super().__init__(config, read_terms)
        self.codec, self.accounting, self.schedule = MeanCodec(config), NoMechanism(config), Schedule(config)

    def first_model(self) -> bytes:
        return Mean((0.0,) * self.config.method.length).to_bytes()

    def read_model(self, data: bytes, layout=None) -> Mean:
        values = tuple(json.loads(data))
        if len(values) != self.config.method.length:
            raise InvalidContent("the mean has another length than the terms say")
        return Mean(values)

    def model_bytes(self, model: Mean) -> bytes:
        return model.to_bytes()

    def layout_of(self, model: Mean) -> None:
        return None

    def inputs(self, rounds, current, ledger, store, model=None) -> RoundInputs:
        def read() -> Mean:
            return model or self.fetch_model(store, current.opened.model_digest)

        return RoundInputs(rounds, current, current.graph(*ledger, self.config.masking), self.config, store, read)

    def member_data(self, path) -> np.ndarray:
        return np.load(path)

    def work(self, workplace) -> MeanWork:
        return MeanWork(workplace.data)

    def aides(self, keys, test) -> Aides:
        return Aides()

    def report(self, rounds, store) -> dict[str, Any]:
        return {"mean": list(self.fetch_model(store, rounds.model_digest).values)}
