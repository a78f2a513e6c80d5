"""The common part of methods that train models: the first model, and the samples of members and coordinator."""

from pathlib import Path

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.tables.formats import TableFormat
from fedgrove.node.methods.training.learner import LearnedData
from fedgrove.node.methods.training.task_data import refuse_task
from fedgrove.node.protocol.content import ModelT, UpdateT
from fedgrove.node.protocol.method import Method
from fedgrove.node.protocol.prediction import OpenTask, Predictor


class ModelMethod(Method[ModelT, UpdateT, LearnedData]):
    """Members train on samples, or on what their task makes of their data."""

    def first_model(self) -> bytes:
        if self.config.task is not None:
            raise InvalidConfig("start.model is missing: the first model of a task does not follow from the terms")
        from fedgrove.node.methods.training.initial import initial_model

        return self.first_from(initial_model(self.config))

    def member_data(self, path: Path) -> Samples:
        refuse_task(self.config)
        from fedgrove.node.methods.training.data import member_samples

        return member_samples(self.config, path)

    def test_data(self, path: Path) -> Samples:
        refuse_task(self.config)
        from fedgrove.node.methods.training.data import held_out_samples

        return held_out_samples(self.config, path)

    def predictor(self, tensors: Tensors, open_task: OpenTask, form: TableFormat | None = None) -> Predictor:
        from fedgrove.node.methods.training.prediction import NetworkPredictor, TaskPredictor

        if self.config.task is not None:
            return TaskPredictor(self.config, tensors, open_task, form)
        return NetworkPredictor(self.config, tensors)
