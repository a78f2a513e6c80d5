"""Canaries: what an attacker shows of each mechanism's ε is below what is accounted.

The mechanisms are those of real rounds (``node.methods.training``), without masks, which cancel. The attacker knows all
updates but whether the victim's is a canary or its neighbour. All draws follow from a seed. ``test_broken_mechanisms``
shows that the attacker finds more than is accounted where a mechanism is broken.
"""

import math
import os
from dataclasses import dataclass, replace
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

from fedgrove.node.base.tensors import Layout, flatten
from fedgrove.node.learning.settings import EvaluationSettings, ModelSpec
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.masking.graph import Group
from fedgrove.node.methods.terms import method_of
from fedgrove.node.methods.training.codec import ModelUpdate
from fedgrove.node.methods.training.terms import TrainingTerms
from fedgrove.node.privacy import signds
from fedgrove.node.privacy.accountant import epsilon_of
from fedgrove.node.privacy.client_level import fill_up, quantise, rate_words
from fedgrove.node.privacy.grid import Grid
from fedgrove.node.privacy.settings import ClientLevelSettings, LocalSettings, PrivacySettings, SignDsSettings
from fedgrove.node.protocol.metric_words import MetricSums
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.terms import FederationConfig, MaskingSettings, StrategySettings
from tests.node.privacy.canaries import Lots, gaussian_bound, pure_bound

FEW, MANY = 1000, 6_000
DELTA = 1e-3
MODEL = {name: np.zeros(2, np.float32) for name in "abcd"}
LENGTH = 8


def update(value: float) -> dict[str, np.ndarray]:
    return {name: np.full(2, value, np.float32) for name in MODEL}


ZEROS, LONG, OPPOSITE = update(0.0), update(5.0), update(-5.0)


@dataclass(frozen=True)
class Scene:
    """A federation whose members all upload zeros, but for the victim, client 1.

    Attributes
    ----------
    sharers, survivors : int
        How many were to upload, and how many did.
    canary, neighbour : dict of arrays
        The victim's updates, between which the attacker decides.
    rounds : int
        In every second the victim's update is turned round.
    same_lots : bool
        The clients' machines draw the same random bytes in every round.
    readers : bool
        The attacker knows who was drawn, and ε is that towards readers of the ledger.
    rates : int
        How many rates each upload tells: the others say 0.7, the victim 1 with its canary and nothing with zeros.
    only : bool
        The rounds only evaluate.
    """

    settings: PrivacySettings
    sharers: int = 2
    survivors: int = 2
    canary: dict[str, np.ndarray] = None
    neighbour: dict[str, np.ndarray] = None
    rounds: int = 1
    same_lots: bool = False
    readers: bool = False
    rates: int = 0
    only: bool = False

    @property
    def config(self) -> FederationConfig:
        named = tuple(f"m{number}" for number in range(self.rates))
        trained = {"task": TaskSettings.of_network(ModelSpec("small-cnn", (1, 8, 8), 10))}
        if named:
            trained = {"task": TaskSettings("b" + "a" * 58), "evaluation": EvaluationSettings(0.0, named)}
            trained["strategy"] = StrategySettings("fedavg")
        masking = MaskingSettings(masked="delta", bound=1e6)
        return FederationConfig(TrainingTerms(), **trained, masking=masking, privacy=self.settings)

    def place(self, number: int) -> RoundInputs:
        rate = self.config.rate_ppm(number)
        order = tuple(range(1, self.sharers + 1))
        current = RoundRecords(
            SimpleNamespace(round=number, sampling_rate=rate, model_digest=b"canaries"),
            able=order + (0,) * (4 - len(order)),
            order=order,
        )
        current.shares.update(dict.fromkeys(range(1, self.sharers + 1)))
        current.commits.update(dict.fromkeys(range(1, self.survivors + 1)))
        graph = SimpleNamespace(groups=(Group.of(range(self.sharers), 1),), is_whole=True)
        inputs = RoundInputs(Rounds(), current, graph, self.config, None, lambda: MODEL)
        vars(inputs)["only_evaluates"] = self.only
        return inputs

    def victims(self, present: bool, number: int) -> dict[str, np.ndarray]:
        own = (self.canary or LONG) if present else (self.neighbour or ZEROS)
        return own if number % 2 else {name: -tensor for name, tensor in own.items()}

    def metrics(self, client: int, present: bool) -> MetricSums | None:
        """What a client measured, where rates are told."""
        if not self.rates:
            return None
        samples = 10 if client > 1 or present else 0
        value = 1.0 if client == 1 else 0.7
        return MetricSums.measured(samples, {f"m{number}": samples * value for number in range(self.rates)})


# --- what the attacker sees -------------------------------------------------------------------------------------------


def client_level_bound(scene: Scene, lots: Lots, trials: int) -> float:
    """From the sums of all rounds, along the line between the victim's two uploads."""
    kind, places = method_of(scene.config).codec, [scene.place(number) for number in range(1, scene.rounds + 1)]
    grids: list[Grid] = [kind._round(inputs).grid for inputs in places]

    def clean(present: bool, number: int) -> np.ndarray:
        vector, grid = flatten(scene.victims(present, number)), grids[number - 1]
        rates = (1.0 if present else None,) * scene.rates
        if scene.only:
            return _signed(rate_words(grid, rates, Random(1).randbytes))
        return _signed(quantise(grid, vector, Random(1).randbytes, rates))

    apart = [clean(True, number) - clean(False, number) for number in range(1, scene.rounds + 1)]

    def score(present: bool, trial: int) -> float:
        found = 0.0
        for number, (inputs, grid, line) in enumerate(zip(places, grids, apart, strict=True), 1):
            lots.restart(2 * (trial if scene.same_lots else trial * scene.rounds + number) + present)
            words = np.zeros(grid.length, np.uint32)
            for client in inputs.current.commits:
                own = scene.victims(present, number) if client == 1 else ZEROS
                update = ModelUpdate(own, scene.metrics(client, present))
                words += np.frombuffer(kind.encode(inputs, client, None, update), np.uint32)
            if method_of(scene.config).accounting.everybody_spends and not scene.readers:
                fill_up(grid, words, scene.survivors, lots(32))
            found += float(_signed(words) @ line)
        return found

    def scores(present: bool, count: int) -> np.ndarray:
        return np.array([score(present, trial) for trial in range(count)])

    return gaussian_bound(scores, trials, DELTA)


def client_level_accounted(scene: Scene) -> float:
    kind, current = method_of(scene.config).accounting, scene.place(1).current
    told = kind.release_to_readers if scene.readers else kind.release
    return epsilon_of([told(current, LENGTH)] * scene.rounds, DELTA)


def local_bound(scene: Scene, lots: Lots, trials: int) -> float:
    """From the upload, along the line between the two updates; their scale says nothing."""
    mechanism, start = method_of(scene.config).codec.mechanism(Layout.of(LONG)), scene.place(1).previous
    line = flatten(LONG) - flatten(OPPOSITE)

    def scores(present: bool, count: int) -> np.ndarray:
        own = flatten(LONG if present else OPPOSITE)
        return np.array([float(mechanism.vector(own, lambda: start, os.urandom) @ line) for _ in range(count)])

    return gaussian_bound(scores, trials, DELTA)


def local_accounted(scene: Scene) -> float:
    return epsilon_of([method_of(scene.config).accounting.release(scene.place(1).current, LENGTH)], DELTA)


ONES = np.concatenate([np.full(4, 9.0), -np.arange(1.0, 61.0)]).astype(np.float32)
"""Four dimensions grew, all others shrank."""


def signds_bound(scene: Scene, lots: Lots, trials: int) -> float:
    """From the selection: whether it has enough of the one update's top dimensions and not of the other's."""
    mechanism = signds.mechanism_for(scene.settings, len(ONES))

    def tops(vector: np.ndarray, sign: int) -> frozenset[int]:
        return frozenset(np.argsort(-sign * vector, kind="stable")[: mechanism.top].tolist())

    def enough(vector: np.ndarray, found: signds.Selection) -> bool:
        return len(tops(vector, found.sign) & set(found.dimensions.tolist())) >= mechanism.threshold

    def score(own: np.ndarray) -> int:
        found = signds.Selection.from_bytes(signds.select(mechanism, own, lots).to_bytes(), mechanism)
        return enough(ONES, found) - enough(-ONES, found)

    def scores(present: bool, count: int) -> np.ndarray:
        return np.array([score(ONES if present else -ONES) for _ in range(count)])

    return pure_bound(scores, trials)


def signds_accounted(scene: Scene) -> float:
    return scene.settings.epsilon


# --- mechanisms that are as they should be ----------------------------------------------------------------------------

FIXED = ClientLevelSettings(epsilon=8.0, delta=DELTA)
QUANTILE = replace(FIXED, clipping="quantile")
SECRET = replace(FIXED, participation="secret", dropouts=0.25, sampling_rates=(0.5,))
LOCAL = LocalSettings(epsilon=3.0, delta=DELTA)
SIGNDS = SignDsSettings(epsilon=2.0, top=0.25, dimensions=1)

PLAYS = {
    "client": (client_level_bound, client_level_accounted),
    "local": (local_bound, local_accounted),
    "signds": (signds_bound, signds_accounted),
}
INTACT = {
    "client-level": Scene(FIXED),
    "client-level, not a number": Scene(FIXED, neighbour=update(math.nan)),
    "client-level, some lost": Scene(replace(FIXED, dropouts=0.25), 3, 2),
    "client-level, three rounds": Scene(FIXED, rounds=3),
    "a quantile tracked": Scene(QUANTILE),
    "filled up": Scene(replace(SECRET, sampling_rates=(1.0,)), 3, 2),
    "a rate": Scene(FIXED, rates=1),
    "rates and a quantile": Scene(QUANTILE, rates=3),
    "rates alone": Scene(FIXED, rates=3, only=True),
    "readers of the ledger": Scene(SECRET, 3, 2, readers=True),
    "local": Scene(LOCAL),
    "SignDS": Scene(SIGNDS),
}


def shown_and_accounted(scene: Scene, lots: Lots, trials: int) -> tuple[float, float]:
    bound, accounted = PLAYS[scene.settings.mechanism]
    return bound(scene, lots, trials), accounted(scene)


@pytest.mark.parametrize(
    "mechanism",
    ["client-level", "a quantile tracked", "filled up", "rates and a quantile", "rates alone", "local", "SignDS"],
)
def test_nobody_shows_more_than_was_accounted(lots, mechanism):
    shown, accounted = shown_and_accounted(INTACT[mechanism], lots, FEW)
    assert accounted / 4 < shown < accounted


@pytest.mark.statistics
@pytest.mark.parametrize("mechanism", INTACT)
def test_nobody_shows_more_than_was_accounted_in_many_trials(lots, mechanism):
    shown, accounted = shown_and_accounted(INTACT[mechanism], lots, MANY)
    assert accounted / 2 < shown < accounted


def _signed(words: np.ndarray) -> np.ndarray:
    return words.view(np.int32).astype(np.float64)
