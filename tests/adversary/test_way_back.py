"""A member that brings the model to where nobody can train from it, and what would keep the others there.

Within the bound one member can bring the mean to any value. Deep networks overflow there, shallow ones on a regression
do, and a task's own code may raise. Those that cannot train sit out, the round fails, and in the next round from the
same model they train from the first one. The attacker wants this to come to nothing: by a momentum that carries the
poison on, by a round in which half can still train, by a model on which the code raises rather than diverges, in the
last round, or by a loss that no new beginning reaches within the terms' patience.
"""

from concurrent.futures import Future
from types import SimpleNamespace

import numpy as np
import pytest

from fedgrove.chain.records import Closed, Failed, RoundOpened
from fedgrove.node.learning.local_update import DivergedTraining
from fedgrove.node.learning.server_steps import AdamStep, MomentumStep
from fedgrove.node.learning.settings import EvaluationSettings
from fedgrove.node.methods.training.codec import ModelCodec
from fedgrove.node.methods.training.metric_sums import members_metrics, names_of
from fedgrove.node.methods.training.network_trainer import NetworkTrainer
from fedgrove.node.methods.training.task_data import TaskFailed
from fedgrove.node.protocol.members_metrics import LossCourse, MembersMetrics
from fedgrove.node.protocol.metric_words import MetricSums, to_words
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import Rounds
from tests.adversary.test_poisoned_sum import BOUND, Terms, attacked, honest_idle, model

__all__ = ["attacked"]  # a fixture

STEPS = {
    "mean": None,
    "momentum": MomentumStep(),
    "lookahead": MomentumStep(lookahead=True),
    "adam": AdamStep(rate=10.0),
}
OVERFLOW = DivergedTraining("the loss is not finite")
RAISED = TaskFailed("the task raised ValueError: singular matrix")


def failed(fault: Exception) -> Future:
    """A training that came to an exception."""
    done: Future = Future()
    done.set_exception(fault)
    return done


def is_poisoned(tensors) -> bool:
    return max(value.max() for value in tensors.values()) == BOUND


@pytest.fixture
def fails(monkeypatch):
    """``fails(fault)``: every training from a model at the bound does, or by ``which`` those of some trainers."""
    honest = NetworkTrainer.start

    def make(fault, which=lambda trainer: True, where=is_poisoned):
        def start(trainer, tensors, *rest):
            return failed(fault) if which(trainer) and where(tensors) else honest(trainer, tensors, *rest)

        monkeypatch.setattr(NetworkTrainer, "start", start)

    return make


def moved(federation) -> float:
    """How far from the first model the last one is."""
    first, last = federation.of(RoundOpened)[0].model_digest, federation.of(Closed)[-1].model_digest
    return float(np.abs(model(federation, last) - model(federation, first)).max())


def closed_in(federation) -> list[int]:
    return [record.round for record in federation.of(Closed)]


@pytest.mark.parametrize(("fault", "step"), [(RAISED, "mean"), *((OVERFLOW, step) for step in STEPS)])
def test_a_model_from_which_nobody_can_train_is_left_for_the_first_one(attacked, fails, fault, step):
    fails(fault)
    federation = attacked(Terms("weights", None, None, STEPS[step]))
    assert closed_in(federation) == [1, 3] and not honest_idle(federation)
    assert 0 < moved(federation) < 0.5  # as far as a round of training leads
    said = " ".join(sentence for client in (1, 2, 3) for sentence in federation.said(f"client {client}"))
    brief = "the training left the finite numbers" if fault is OVERFLOW else str(fault)
    assert f"turned to the first model, as most fail to train from the one in force: {brief}" in said
    assert federation.audit().verdict == "verified"


@pytest.mark.mutants
@pytest.mark.parametrize("step", ["momentum", "adam"])
def test_a_server_that_went_on_from_its_state_would_carry_the_poison_on(attacked, fails, monkeypatch, step):
    fails(OVERFLOW)
    monkeypatch.setattr(ModelCodec, "outcome", without_reset)
    federation = attacked(Terms("weights", None, None, STEPS[step]))
    assert closed_in(federation) == [1, 3] and moved(federation) > 0.8 * BOUND


def without_reset(codec, inputs, record):
    """The server's step in each round, as it was."""
    found = codec.mean(inputs, record)
    return type(found)(codec.server.next(lambda: inputs.published, found.model))


def slowed_for(poison: float) -> int:
    """Rounds until a weight moves by half of what it would have moved without one change of this size in round 20."""
    step, rounds = AdamStep(), 1000
    with_it, without = (moves(step, [0.01] * 20 + [one] + [0.01] * rounds) for one in (poison, 0.01))
    return sum(2 * with_it[21:] < without[21:])


def moves(step: AdamStep, changes: list[float]) -> np.ndarray:
    kept = {name: np.full(1, value, np.float32) for name, value in step.rest.items()}
    weights = [np.zeros(1, np.float32)]
    for change in changes:
        new, kept = step.next(weights[-1], np.full(1, change, np.float32), kept)
        weights.append(new)
    return np.abs(np.diff(np.concatenate(weights)))


def test_one_change_at_the_bound_slows_adam_for_as_many_rounds_as_the_threat_model_says():
    assert 850 < slowed_for(2 * BOUND) < 900


def test_where_half_can_still_train_too_few_to_open_a_sum_the_others_turn_back(attacked, fails):
    """Two of four commit, the attacker among them: no minority, and never enough."""
    seen: dict[int, int] = {}
    fails(OVERFLOW, which=lambda trainer: seen.setdefault(id(trainer), len(seen)) in (1, 2))
    federation = attacked(Terms("weights", None, None))
    assert closed_in(federation) == [1, 3] and moved(federation) < 0.8 * BOUND
    assert federation.audit().verdict == "verified"


@pytest.mark.mutants
def test_a_rule_of_majorities_alone_would_leave_them_stuck(attacked, fails, monkeypatch):
    seen: dict[int, int] = {}
    fails(OVERFLOW, which=lambda trainer: seen.setdefault(id(trainer), len(seen)) in (1, 2))
    monkeypatch.setattr(RoundInputs, "_lacked_updates", lambda _, each: 2 * len(each.commits) < len(each.shares))
    assert closed_in(attacked(Terms("weights", None, None))) == [1]


def test_who_cannot_train_from_the_first_model_either_sends_it_unchanged(attacked, fails):
    """What fails is not the model: all members are counted, and nobody learns who they are."""
    fails(RAISED, where=lambda tensors: True)
    assert attacked(Terms("weights", None, None)).stated()[0].raised == 4


def raising(trainer, tensors, state) -> Future:
    """A task's code raises where it evaluates the last model."""
    return failed(RAISED)


def last_metrics(federation) -> MembersMetrics:
    return federation.stated()[-1].members


def test_a_last_model_that_nobody_can_evaluate_ends_the_federation_without_metrics(attacked, monkeypatch):
    monkeypatch.setattr(NetworkTrainer, "measure", raising)
    federation = attacked(Terms("weights", None, None, evaluation=EvaluationSettings(), repeats=3))
    assert closed_in(federation) == [1, 2, 3] and not federation.of(Failed)
    assert (last_metrics(federation).last, last_metrics(federation).there) == (True, False)
    assert federation.audit().verdict == "verified"


# --- a loss that no new beginning reaches in time ---------------------------------------------------------------------


def course_after(anew: bool) -> LossCourse:
    """The course of a round whose model has a loss of 2, after one that had come down to 0.1; the patience is 1."""
    settings = EvaluationSettings()
    federation = SimpleNamespace(patience=1)
    inputs = SimpleNamespace(
        config=SimpleNamespace(
            evaluation=settings, federation=federation, learned=SimpleNamespace(bundle=""), classes=(), privacy=None
        ),
        rounds=Rounds(),
        current=SimpleNamespace(number=1, opened=SimpleNamespace(model_digest=bytes(32))),
        graph=SimpleNamespace(participants=[SimpleNamespace(samples=50)]),
        stated=SimpleNamespace(members=MembersMetrics(0, {}, course=LossCourse(0.1))),
        only_evaluates=False,
        begins_anew=anew,
    )
    found = MetricSums(10, {"right": 3, "loss": 20 << 24, "squared_loss": 41 << 24})
    stated = members_metrics(inputs, to_words(found, names_of(settings)), [0])
    assert stated is not None and stated.course is not None
    return stated.course


def test_a_new_beginning_is_not_measured_by_the_loss_of_what_was_left():
    assert course_after(anew=True) == LossCourse(2.0)


def test_otherwise_one_poisoned_round_would_end_the_training():
    assert course_after(anew=False).ends
