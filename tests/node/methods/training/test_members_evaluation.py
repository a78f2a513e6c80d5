"""Members evaluate the model that a round begins with, before they train; the round states the exact sum."""

import io
import json
import math
from concurrent.futures import Future
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Committed
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import load
from fedgrove.node.learning.held_out import marks_of, split
from fedgrove.node.learning.local_update import HeldOutSums, LocalUpdate
from fedgrove.node.learning.networks import held_out_sums, train
from fedgrove.node.learning.server_steps import AdamStep
from fedgrove.node.learning.settings import EvaluationSettings, TrainingSettings
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.methods.terms import method_of
from fedgrove.node.methods.training.hold_out import HoldOut
from fedgrove.node.methods.training.local_training import METRICS, LocalTraining
from fedgrove.node.methods.training.network_trainer import NetworkTrainer
from fedgrove.node.privacy.settings import LocalSettings, SignDsSettings
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.journal import Journal
from fedgrove.node.protocol.metric_words import MetricSums
from fedgrove.node.protocol.terms import FederationConfig, FederationSettings, MaskingSettings
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.logs import ServiceLog
from tests.node.federation import Federation
from tests.node.methods.training.test_local_training import entry

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)
TERMS = {
    "whole masks, weights": (5, 3, MaskingSettings()),
    "thin masks, updates": (8, 2, MaskingSettings(mode="pairwise", masked="delta", kappa=0.5)),
}
SILENT = 3
"""Client that falls silent in round 2, when it has shared."""


@dataclass
class Run:
    """A federation that has ended, its closings and what they state."""

    federation: Federation
    closed: list[Closed]
    metrics: list[Metrics]
    survivors: list[tuple[int, ...]]

    def begun_with(self, place: int) -> dict[str, np.ndarray]:
        """The model that the round at a place began with."""
        digest = self.closed[place - 1].model_digest if place else bytes.fromhex(self.federation.config.start.model)
        return load(self.federation.store.fetch(digest, 1 << 24))

    def parts(self, client: int):
        """A client's samples to train on, and those that it holds out."""
        keys, samples = self.federation.keys[client - 1], self.federation.samples[client - 1]
        journal = Journal(self.federation.directory / f"client-{client}", keys.storage)
        rule = HoldOut(journal, keys, self.federation.config.evaluation.millionths).rule
        found = split(marks_of(samples, rule), rule)
        return samples.take(found.train), samples.take(found.held_out)


@pytest.fixture(scope="module", params=TERMS)
def run(request, tmp_path_factory) -> Run:
    with embedded() as network:
        clients, rounds, masking = TERMS[request.param]
        terms = {"training": QUICK, "masking": masking, "evaluation": EvaluationSettings(0.25)}
        made = Federation.found(network, tmp_path_factory.mktemp("run"), clients, rounds, **terms)
        made.register()
        coordinator, clients = made.coordinator(), made.clients()
        while made.turn(coordinator, clients):
            if coordinator.round == 2 and made.said(f"client {SILENT}")[-1:] == ["shared"]:
                clients.pop(SILENT, None)
        closed = made.of(Closed)
        metrics = [Metrics.from_bytes(made.store.fetch(end.metrics_digest, 1 << 16)) for end in closed]
        ledger = coordinator.view.rounds.rounds
        yield Run(made, closed, metrics, [tuple(ledger[end.round].commits) for end in closed])


def test_each_round_states_the_exact_sum_of_its_survivors(run):
    clients = len(run.federation.keys)
    assert [len(each) for each in run.survivors] == [clients, *[clients - 1] * (len(run.closed) - 1)]
    assert len(run.closed) == run.federation.config.federation.rounds + 1
    for place, (stated, survivors) in enumerate(zip(run.metrics, run.survivors, strict=True)):
        model, own = run.begun_with(place), []
        for client in survivors:
            _, held_out = run.parts(client)
            own.append(
                MetricSums.measured(len(held_out), held_out_sums(run.federation.config.network, model, held_out).totals)
            )
        assert stated.members.samples == sum(each.samples for each in own) == 15 * len(survivors)
        for name in ("right", "loss", "squared_loss"):
            assert stated.members.sums[name] == sum(each.sums[name] for each in own)


def test_the_last_round_trains_nothing_and_closes_with_the_model_that_it_began_with(run):
    *_, before, last = run.closed
    assert last.model_digest == before.model_digest and before.model_digest != run.closed[-3].model_digest
    assert [each.members.last for each in run.metrics] == [False] * (len(run.closed) - 1) + [True]
    current = run.federation.coordinator().view.refresh()
    sizes = [run.federation.store.root(each.digest, 1 << 20).size for each in current.commits.values()]
    assert sizes == [4 * 9] * len(run.survivors[-1])  # samples, right answers, two sums of three words, who raised
    committed = [said for said in run.federation.said("client 1") if said.startswith("committed")]
    assert committed[-1] == "committed only metrics: the training has ended" and "only" not in "".join(committed[:-1])


def test_the_audit_comes_to_the_same_metrics(run):
    verdict = run.federation.audit()
    assert (verdict.verdict, verdict.remarks) == ("verified", ())


def test_the_last_round_leaves_what_a_servers_step_keeps(tmp_path):
    """The step's moments lie beside the model: the round that only evaluates closes with both as they were."""
    with embedded() as network:
        terms = {"training": QUICK, "evaluation": EvaluationSettings(0.25), "server": AdamStep()}
        made = Federation.found(network, tmp_path, 3, 1, masking=MaskingSettings(masked="delta"), **terms)
        made.register()
        made.run()
        first, last = (record for record in made.of(Closed))
        assert first.model_digest == last.model_digest
        stated = Metrics.from_bytes(made.store.fetch(last.metrics_digest, 1 << 16)).members
        assert stated.last and stated.samples == 3 * 15
        assert made.audit().verdict == "verified"


def test_nobody_trains_on_what_it_holds_out(run):
    """The first round's model is the weighted mean of what the clients train on the rest alone."""
    config, total, expected = run.federation.config, 0, 0
    position = {"number": 1, "rounds": config.federation.rounds, "seed": config.federation.seed}
    for client in run.survivors[0]:
        own, held_out = run.parts(client)
        assert len(own) + len(held_out) == 60 and len(held_out) == 15
        strategy = make_strategy(config.strategy.name, {})
        work = (config.network, run.begun_with(0), own, None, strategy, QUICK)
        update = train(*work, **position, client=client, state={})
        total, expected = total + 60, expected + 60 * update.tensors["output.weight"].astype(np.float64)
    assert np.abs(run.begun_with(1)["output.weight"] - expected / total).max() < 1e-6


def test_a_lost_journal_holds_out_the_same_samples(run, tmp_path):
    keys, samples = run.federation.keys[0], run.federation.samples[0]
    rule = HoldOut(Journal(tmp_path / "new", keys.storage), keys, 250_000).rule
    _, held_out = run.parts(1)
    assert np.array_equal(samples.take(split(marks_of(samples, rule), rule).held_out).x, held_out.x)


def test_two_members_with_the_same_samples_hold_out_others(run):
    rules = [
        HoldOut(Journal(run.federation.directory / f"client-{each}", keys.storage), keys, 250_000).rule
        for each, keys in enumerate(run.federation.keys[:2], 1)
    ]
    samples = run.federation.samples[0]
    first, second = (split(marks_of(samples, rule), rule).held_out for rule in rules)
    assert first != second


@pytest.fixture(scope="module")
def alone(run, tmp_path_factory):
    """What one client needs to train without a federation: terms, store, model, data."""
    config, store = run.federation.config, DiskStore(tmp_path_factory.mktemp("alone"))
    digest = store.put(method_of(config).first_model()).digest
    return config, store, digest, run.federation.samples[0], run.federation.keys[0]


def inputs_of(only_evaluates):
    """Inputs of every round, as far as local training asks for them."""
    return lambda current: SimpleNamespace(only_evaluates=only_evaluates)


def training(alone, journal, only_evaluates=False):
    config, store, _, samples, keys = alone
    hold_out = HoldOut(journal, keys, config.evaluation.millionths)
    trainer = NetworkTrainer(store, config, samples, None, hold_out=hold_out)
    return LocalTraining(store, config, trainer, journal, inputs_of(only_evaluates), lambda current: 1)


def test_metrics_are_in_the_journal_before_the_update_is(alone, tmp_path):
    journal, written = Journal(tmp_path, alone[-1].storage), []
    write = journal.write
    journal.write = lambda number, name, data: (written.append(name), write(number, name, data))
    first = training(alone, journal).result(entry(1, alone[2]), 1)
    assert written.index(METRICS) < written.index("update")
    assert training(alone, journal).result(entry(1, alone[2]), 1).metrics == first.metrics
    assert written.count("update") == 1


def test_in_the_last_round_a_client_only_evaluates_once(alone, tmp_path, monkeypatch):
    journal = Journal(tmp_path, alone[-1].storage)
    trained = training(alone, journal).result(entry(1, alone[2]), 1)
    monkeypatch.setattr(NetworkTrainer, "start", lambda *_: pytest.fail("it trains"))
    found = training(alone, journal, only_evaluates=True).result(entry(2, alone[2]), 1)
    assert found.tensors == {} and found.metrics == trained.metrics
    assert not (tmp_path / "00000002-update.sealed").exists()
    monkeypatch.setattr(NetworkTrainer, "measure", lambda *_: pytest.fail("it evaluates again"))
    assert training(alone, journal, only_evaluates=True).result(entry(2, alone[2]), 1) == found


@pytest.mark.parametrize("lost", [METRICS, "update"])
def test_what_was_killed_in_between_is_done_again_to_the_same_end(alone, tmp_path, lost):
    journal = Journal(tmp_path, alone[-1].storage)
    first = training(alone, journal).result(entry(1, alone[2]), 1)
    (tmp_path / f"00000001-{lost}.sealed").unlink()
    second = training(alone, journal).result(entry(1, alone[2]), 1)
    assert second.metrics == first.metrics
    assert all(np.array_equal(value, second.tensors[name]) for name, value in first.tensors.items())


def test_a_member_with_few_samples_counts_none(alone, tmp_path):
    config, store, digest, samples, keys = alone
    small = (config, store, digest, samples.take(range(3)), keys)
    found = training(small, Journal(tmp_path, keys.storage)).result(entry(1, digest), 1)
    assert found.metrics == MetricSums(0, {"right": 0, "loss": 0, "squared_loss": 0})


class OtherTask:
    """A trainer whose task has a metric of its own instead of right answers."""

    def __len__(self):
        return 5

    def start(self, model, position, client, state):
        done = Future()
        totals = {"squared_error": 2.0, "loss": 2.0, "squared_loss": math.inf}
        done.set_result(LocalUpdate(model, 5, 0.1, measured=HeldOutSums(5, totals)))
        return done


def other_task(alone, journal, *metrics):
    config, store, digest, _, _ = alone
    config = replace(config, task=TaskSettings("b" + "a" * 58), evaluation=EvaluationSettings(0.0, metrics))
    work = LocalTraining(store, config, OtherTask(), journal, inputs_of(False), lambda current: 1)
    return work.result(entry(1, digest), 1)


def test_a_client_whose_task_lacks_a_metric_sends_the_model_unchanged_and_says_which(alone, tmp_path):
    found = other_task(alone, Journal(tmp_path, alone[-1].storage), "right")
    assert "no metric right, which evaluation.metrics asks for" in found.detail
    assert found.fault is not None and found.metrics.samples == 0
    first = load(alone[1].fetch(alone[2], 1 << 24))
    assert all(np.array_equal(found.tensors[name], first[name]) for name in first)


def test_a_tasks_own_metric_is_summed_and_a_loss_beyond_words_ends_at_their_limit(alone, tmp_path):
    found = other_task(alone, Journal(tmp_path, alone[-1].storage), "squared_error").metrics
    assert found == MetricSums(5, {"squared_error": 2 << 24, "loss": 2 << 24, "squared_loss": 2**47 - 1})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"privacy": LocalSettings(epsilon=20.0, delta=1e-3, clip=0.5)}, "is local: its sums would have no noise"),
        ({"privacy": SignDsSettings(epsilon=2.0)}, "is signds: its sums would have no noise"),
        ({"evaluation": EvaluationSettings(0.0)}, "a held_out above 0, and metrics right and confusion only"),
        ({"evaluation": EvaluationSettings(0.2, ("squared_error",))}, "metrics right and confusion only"),
        ({"evaluation": None, "federation": FederationSettings(patience=2)}, "federation.patience must be 0 without"),
    ],
)
def test_terms_that_cannot_be_are_refused_in_a_sentence(run, changes, said):
    config = replace(run.federation.config, masking=MaskingSettings())
    values = {name: getattr(config, name) for name in config.__dataclass_fields__}
    with pytest.raises(InvalidConfig, match=said):
        FederationConfig(**{**values, **changes})


# --- a member whose own metrics fail ------------------------------------------------------------------------------


class Unmeasured(Client):
    """Its task's metric is no number in the first round, and fails in all others."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        trainer = self.context.work._trainer
        train, evaluate = trainer.start, trainer.measure

        def start(model, position, *rest):
            update = train(model, position, *rest).result()
            return done(replace(update, measured=spoilt(update.measured, position["number"] == 1)))

        trainer.start = start
        trainer.measure = lambda *given: done(spoilt(evaluate(*given).result(), False))


def done(value):
    future = Future()
    future.set_result(value)
    return future


def spoilt(found: HeldOutSums, number: bool) -> HeldOutSums:
    if number:
        return replace(found, totals={**found.totals, "right": math.nan}, place=" (task.py, line 9)")
    return replace(found, fault="its metrics raised ZeroDivisionError: division by zero (task.py, line 9)")


@pytest.fixture(scope="module")
def unmeasured(tmp_path_factory):
    with embedded() as network:
        terms = {"training": QUICK, "evaluation": EvaluationSettings(0.25)}
        made = Federation.found(network, tmp_path_factory.mktemp("unmeasured"), 4, 2, **terms)
        made.register()
        made.run(clients={**made.clients(), 2: made.client(2, Unmeasured)})
        yield made


def test_metrics_that_fail_cost_the_member_its_metrics_and_not_its_training(unmeasured):
    found = [each.members for each in unmeasured.stated()]
    assert [each.samples for each in found] == [45] * 3 and not any(each.void for each in found)
    assert [record.round for record in unmeasured.records() if isinstance(record, Committed) and record.client == 2]
    assert unmeasured.audit().verdict == "verified"


def test_its_log_warns_and_its_terminal_has_the_reason_and_the_place(unmeasured):
    steps = [step for role, step in unmeasured.log if role == "client 2" and step.acted.startswith("committed")]
    assert [step.warns for step in steps] == [True] * 3
    assert [step.acted for step in steps[:2]] == ["committed; without this member's metrics, as the task's failed"] * 2
    assert steps[0].detail == "the metric right is not a finite number (task.py, line 9)"
    assert "raised ZeroDivisionError: division by zero (task.py, line 9)" in steps[1].detail
    others = [step.warns for role, step in unmeasured.log if role == "client 1"]
    assert not any(others)
    log = io.StringIO()
    ServiceLog("client", log).step("client", 1, 1, steps[0])
    assert json.loads(log.getvalue())["level"] == "warning"
