"""What a scenario needs whoever runs it: a task with its data, or a data set, and nothing that is for the other."""

from pathlib import Path

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.processor import check_processor
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.learning.samples import Dataset
from fedgrove.node.learning.settings import SHARING, bf16_fault
from fedgrove.node.protocol.terms import check_bounds
from fedgrove.node.scenario.scenario import ATTRIBUTES, OF_NETWORKS, Scenario


def check_subject(scenario: Scenario) -> None:
    """Raise InvalidConfig unless it is said what is learned, on which data, and nothing beyond."""
    if scenario.bounds is not None:
        check_bounds(scenario.bounds, scenario.method.name, scenario.privacy, scenario.masking)
    if scenario.task is None:
        _check_without_task(scenario)
        return
    if not (scenario.task.folder or scenario.task.name):
        raise InvalidConfig("task.folder is missing: give --task, the task's folder")
    if not scenario.cast.data:
        raise InvalidConfig("scenario.data is missing: give --data, what the task's data() reads")
    if not Path(scenario.cast.data).exists():
        raise InvalidConfig(f"scenario.data: there is no {scenario.cast.data}")
    for table, keys in OF_NETWORKS.items():
        settings = getattr(scenario, ATTRIBUTES.get(table, table))
        plain = type(settings)()
        for key in keys:
            if getattr(settings, key) != getattr(plain, key):
                raise InvalidConfig(f"{table}.{key} is for shipped networks: leave it out with a task")
    for name in scenario.training.augmentations:
        raise InvalidConfig(f"training.{name} must be left out with a task, whose data() augments")
    if scenario.strategy.name in SHARING and not scenario.task.shared:
        name = scenario.strategy.name
        raise InvalidConfig(f"task.shared must name a file of the task's folder where strategy.name is {name}")


def check_data(scenario: Scenario, dataset: Dataset) -> None:
    """Raise InvalidConfig if the scenario's model is for samples of another shape or number of classes."""
    for key in ("input_shape", "classes"):
        wanted, found = getattr(scenario.model, key), getattr(dataset, key)
        if wanted and wanted != found:
            raise InvalidConfig(f"model.{key} is {wanted}, and of the data set {dataset.name} {found}: give --dataset")


def check_training(scenario: Scenario) -> None:
    """Raise InvalidConfig unless this processor can train as it is said."""
    fault = bf16_fault(scenario.training, scenario.strategy.name, scenario.task is not None)
    if fault:
        raise InvalidConfig(f"training.precision must be {fault}")
    try:
        check_processor(scenario.training.portable, scenario.training.precision, scenario.run.device)
    except InvalidInput as unsuited:
        raise InvalidConfig(str(unsuited)) from None


def _check_without_task(scenario: Scenario) -> None:
    cast = scenario.cast
    if cast.data:
        raise InvalidConfig(f"scenario.data must be left out without a task, whose data() reads it, not {cast.data!r}")
    if cast.bases:
        raise InvalidConfig("scenario.bases are a task's frozen bases: leave them out with a data set")
    if cast.table_format:
        raise InvalidConfig("scenario.table_format is for the tables of a task: leave it out with a data set")
