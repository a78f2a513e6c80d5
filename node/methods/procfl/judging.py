"""How a judge judges a suspected cluster: it trains, and holds each member's update against its own.

All of it is a function of its arguments, so that it runs in a worker. What it finds is public, with the ballot that
follows from it: of each member a digest, an angle, a length, and a percentage where the rule looks at accuracies.
"""

from dataclasses import dataclass, field

import numpy as np

from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.tensors import Layout, Tensors, flatten, unflatten
from fedgrove.node.learning.local_update import DivergedTraining, RoundPosition
from fedgrove.node.learning.networks import evaluate, train
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.settings import ModelSpec, TrainingSettings
from fedgrove.node.learning.strategies.base import Strategy
from fedgrove.node.methods.procfl.committee import signed_off
from fedgrove.node.methods.procfl.evidence import Evidence, Finding, Rule, direction, even_score, resampled
from fedgrove.node.methods.procfl.stated import Counts


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
    position : dict
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
    position: RoundPosition


def judge_all(tasks: list[Judging]) -> bytes:
    """Judge several clusters, one after the other: the ballots, each with its evidence."""
    return b"".join(signed_off(_judge(task), task.judge, task.rule) for task in tasks)


def _judge(task: Judging) -> Evidence:
    """Train on samples in the proportions of the cluster's labels, and hold each member's update against that."""
    rng = np.random.default_rng([task.position["seed"], task.position["number"], task.judge, task.cluster])
    alike = resampled(task.samples, np.array(task.labels), rng)
    work = (task.model, task.start, alike, task.shared, task.strategy, task.training)
    start, layout = flatten(task.start), Layout.of(task.start)
    try:
        own = flatten(train(*work, **task.position, client=task.judge).tensors) - start
    except DivergedTraining:
        own = None
    scored = task.rule.test != "direction"
    findings: list[Finding | None] = []
    for vector, steps in zip(task.shown, task.steps, strict=True):
        if vector is None:
            findings.append(None)
            continue
        # Of what it cannot compare with an update of its own a judge says nothing against anybody.
        cosine, length = (0, 0) if own is None else direction(vector - start, own, steps)
        score = _score(task, unflatten(vector, layout)) if scored else 0
        findings.append(Finding(cid_of(vector.tobytes()).digest, cosine, length, score))
    return Evidence(tuple(findings), _score(task, task.reference) if scored else 0)


def _score(task: Judging, model: Tensors) -> int:
    result = evaluate(task.model, model, task.samples)
    return even_score(result.per_label, result.right)
