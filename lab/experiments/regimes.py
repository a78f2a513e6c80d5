"""Settings that several experiments share. The paper's own tables of settings (2 and 3) are lost."""

from collections.abc import Iterable, Mapping
from typing import Any

from fedgrove.node.learning.settings import PartitionSettings, TrainingSettings
from fedgrove.node.scenario.reading import MANY
from fedgrove.node.scenario.scenario import Scenario

METHODS = ("fedavg", "fedprox", "fedcurv", "moon", "fedaom")

NAMES = {
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "fedcurv": "FedCurv",
    "moon": "MOON",
    "fedaom": "FedAom",
    "fedaom_eq7": "FedAom, eq. 7",
    "fedaomsam": "FedAom with SAM",
    "fedacg": "FedACG",
    "fedadam": "FedAdam",
    "fedavgm": "FedAvgM",
    "share": "share",
    "scaffold": "SCAFFOLD",
    "feddyn": "FedDyn",
    "fedlc": "FedLC",
    "fedntd": "FedNTD",
    "fedsam": "FedSAM",
    "fedspeed": "FedSpeed",
    "signds": "SignDS",
}
"""Names of methods in tables."""

# At these FedAvg needs about as many rounds as the paper reports: 106, 107 and 156 with the seeds 100, 101 and 102,
# which no comparison uses.
SAMPLED = 0.05
PAPER_LIKE = TrainingSettings(
    epochs=1, batch_size=50, learning_rate=0.01, learning_rate_decay=0.998, momentum=0.5, weight_decay=1e-4
)
# The augmentation of section 4.1. Of five settings tried with FedAvg, seed 100, the one that learns soonest: at
# momentum 0.9 or a rate of 0.06, clients with one or two labels pull the model to and fro.
CIFAR10 = TrainingSettings(
    epochs=2,
    batch_size=50,
    learning_rate=0.02,
    learning_rate_decay=0.998,
    momentum=0.5,
    weight_decay=1e-4,
    crop=4,
    flip=True,
    erase=0.25,
)
TRAINING = {"mnist": PAPER_LIKE, "cifar10": CIFAR10}
# FedAom fades its added loss out over the rounds, so settings are chosen and compared at the same number of them.
TUNED_ROUNDS = 40


def plan_of(
    strategy: str,
    *,
    dataset: str = "mnist",
    alpha: float = 0.1,
    rounds: int = 200,
    sampled: float = SAMPLED,
    options: Mapping[str, float] | None = None,
    **changes: Any,
) -> Scenario:
    """100 clients, 5 drawn a round, labels split by Dirichlet(α), the data set's training settings."""
    usual = {
        "training": TRAINING[dataset],
        "partition": PartitionSettings("dirichlet", alpha=alpha),
    }
    return MANY.changed(
        cast={"dataset": dataset, "clients": 100},
        federation={"rounds": rounds, "sampling_rate": sampled},
        strategy={"name": strategy, "options": dict(options or {})},
        **{**usual, **changes},
    )


def by_method(strategies: Iterable[str], **changes: Any) -> dict[str, Scenario]:
    """One arm a strategy, labelled with its name."""
    return {strategy: plan_of(strategy, **changes) for strategy in strategies}
