"""How a judge judges a suspected cluster: it trains, and holds each member's update against its own.

All of it is a function of its arguments, so that it runs in a worker. What it finds shows the judge's label counts and
stays with it; its ballot, which is public, has the votes and a salted digest of that.
"""

import json
import os
from dataclasses import asdict, dataclass, field

import numpy as np

from ipfs.unixfs import cid_of
from node.clustering.committee import Ballot
from node.clustering.evidence import SALT_BYTES, Direction, Evidence, Rule, direction, resampled
from node.clustering.stated import Counts
from node.learning.samples import Samples
from node.learning.settings import ModelSpec, TrainingSettings
from node.learning.strategies.base import Strategy
from node.learning.training import DivergedTraining, evaluate, train
from node.local_work import Diverged
from node.tensors import Layout, Tensors, flatten, unflatten


@dataclass(frozen=True)
class Judging:
    """All that a judge needs to judge one cluster; it goes to a worker as it is.

    Attributes
    ----------
    cluster, judge : int
    model, training, strategy
        As all members train.
    start : Tensors
        What the members trained from.
    reference : Tensors
        The best model from before the fall.
    shown : tuple of float32 array of shape (d,), or None
        Each member's model; None where there is none to be judged.
    steps : tuple of float
        Each member's samples for each of the judge's.
    labels : Counts
        Of the cluster's members together.
    samples : Samples
        The judge's own.
    shared : Samples or None
        The shared set of the terms.
    place : dict
        Round, number of rounds and seed of the judge's training.
    """

    cluster: int
    judge: int
    model: ModelSpec
    training: TrainingSettings
    strategy: Strategy
    start: Tensors = field(repr=False)
    reference: Tensors = field(repr=False)
    shown: tuple[np.ndarray | None, ...] = field(repr=False)
    steps: tuple[float, ...]
    labels: Counts
    samples: Samples = field(repr=False)
    rule: Rule
    shared: Samples | None = field(repr=False)
    place: dict[str, int]


@dataclass(frozen=True)
class Found:
    """A judge's ballot on a cluster, for all, and its evidence, for itself."""

    cluster: int
    ballot: bytes
    evidence: bytes = field(repr=False)


def judge_all(tasks: list[Judging]) -> list[Found]:
    """Judge several clusters, one after the other.

    Raises
    ------
    Diverged
        The judge's own training left the numbers.
    """
    return [_judge(task) for task in tasks]


def _judge(task: Judging) -> Found:
    """Train on samples in the proportions of the cluster's labels, and hold each member's update against that."""
    rng = np.random.default_rng([task.place["seed"], task.place["round"], task.judge, task.cluster])
    alike = resampled(task.samples, np.array(task.labels), rng)
    work = (task.model, task.start, alike, task.shared, task.strategy, task.training)
    try:
        own = flatten(train(*work, **task.place, client=task.judge).tensors)
    except DivergedTraining as fault:
        raise Diverged(str(fault)) from None
    start, layout = flatten(task.start), Layout.of(task.start)
    rows: list[Counts | None] = []
    directions: list[Direction | None] = []
    for vector, steps in zip(task.shown, task.steps, strict=True):
        rows.append(None if vector is None else _right(task, unflatten(vector, layout)))
        directions.append(None if vector is None else direction(vector - start, own - start, steps))
    tested = tuple(np.bincount(task.samples.y, minlength=task.model.classes).tolist())
    evidence = Evidence(tested, _right(task, task.reference), tuple(rows), tuple(directions))
    salt = os.urandom(SALT_BYTES)
    models = [bytes(32) if vector is None else cid_of(vector.tobytes()).digest for vector in task.shown]
    ballot = Ballot(task.judge, evidence.votes(task.rule), evidence.digest(models, salt))
    kept = {"evidence": asdict(evidence), "models": [each.hex() for each in models], "salt": salt.hex()}
    return Found(task.cluster, ballot.to_bytes(), json.dumps(kept).encode())


def _right(task: Judging, model: Tensors) -> Counts:
    return evaluate(task.model, model, task.samples).right
