"""What the federation is compared with: other splits, and each hospital standardising by its own data. No chain here.

Clients train by the functions that a node runs, and their models are averaged by their rows; the masks of a federation
change no bit of that but the rounding of the mean.
"""

import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.local_update import LocalUpdate
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.learning.tasks.tabular import Tabular
from fedgrove.node.learning.tasks.task import Pairs, dataset_of
from fedgrove.node.learning.training import build, evaluate, first_tensors, train
from prepare import read, split

HERE = Path(__file__).parent
SCALE = ("scale.*",)
HOME = "home/"


@dataclass(frozen=True)
class Hospital:
    """A hospital's rows to train on and to evaluate on."""

    train: Pairs
    test: Pairs


class Baseline:
    """One arm's task without chain and masks."""

    def __init__(self, arm: str, rounds: int, seed: int) -> None:
        terms: dict[str, Any] = tomllib.loads((HERE / arm / "terms.toml").read_text())
        self._task, self._training = Tabular(**terms["task"]["options"]), TrainingSettings(**terms["training"])
        self._rounds, self._seed, self._strategy = rounds, seed, make_strategy("fedavg", {})

    def pooled(self, state: int) -> float:
        """Accuracy on all hospitals' test rows of a split, standardised by all members' data."""
        hospitals = self._hospitals(state)
        model, _ = self._train(hospitals, ())
        return _share([self._right(each.test, model) for each in hospitals])

    def apart(self, state: int) -> float:
        """As ``pooled``, but each hospital standardises by its own rows, to train and to evaluate."""
        hospitals = self._hospitals(state)
        model, homes = self._train(hospitals, SCALE)
        scored = [self._right(each.test, model | home) for each, home in zip(hospitals, homes, strict=True)]
        return _share(scored)

    def _train(self, hospitals: list[Hospital], keep: tuple[str, ...]) -> tuple[Tensors, list[Tensors]]:
        """The model after all rounds, and the statistics that each hospital kept at home."""
        model = first_tensors(self._task, self._strategy, self._seed, keep)
        states: list[Tensors] = [{} for _ in hospitals]
        for number in range(1, self._rounds + 1):
            updates = [
                self._update(each, model, states[index], keep, number, index) for index, each in enumerate(hospitals)
            ]
            states = [each.state for each in updates]
            total = sum(each.samples for each in updates)
            model = {
                name: np.float32(sum(each.samples / total * each.tensors[name].astype(np.float64) for each in updates))
                for name in model
            }
        return model, [_home(state) for state in states]

    def _update(
        self, hospital: Hospital, model: Tensors, state: Tensors, keep: tuple[str, ...], number: int, index: int
    ) -> LocalUpdate:
        return train(
            build(self._task, keep),
            hospital.train,
            model,
            self._strategy,
            self._training,
            number=number,
            rounds=self._rounds,
            client=index + 1,
            seed=self._seed,
            state=state,
        )

    def _right(self, rows: Pairs, model: Tensors) -> tuple[float, int]:
        sums = evaluate(build(self._task), rows, model)
        return sums.totals["right"], sums.samples

    def _hospitals(self, state: int) -> list[Hospital]:
        return [Hospital(*(self._rows(part) for part in split(rows, state))) for rows in read().values()]

    def _rows(self, rows: list[dict[str, str]]) -> Pairs:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.csv"
            names = list(rows[0])
            lines = [",".join(names), *(",".join(row[name] for name in names) for row in rows)]
            path.write_text("\n".join([*lines, ""]))
            return dataset_of(self._task.data(path).train)


def _home(state: Tensors) -> Tensors:
    """The statistics kept at home, by the names under which they would travel."""
    own = {name.removeprefix(HOME): value for name, value in state.items() if name.startswith(HOME)}
    if not own:
        return {}
    mean, variance = own["scale.running_mean"], own["scale.running_var"]
    moment = variance + np.square(mean)
    return {"scale.running_mean": mean, "scale.running_second_moment": moment, "scale.known": own["scale.known"]}


def _share(scored: list[tuple[float, int]]) -> float:
    return sum(right for right, _ in scored) / sum(samples for _, samples in scored)
